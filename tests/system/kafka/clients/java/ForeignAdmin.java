// Java's AdminClient: one round of administration, and what the broker told on the way.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

final class ForeignAdmin implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    // Far more than anything here takes.
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final String RETENTION = "retention.ms";
    private static final String RETENTION_MS = "9000000000000";

    private final JsonNode request;
    private final String topic;
    private final String group;
    private final TopicPartition partition;
    private final ConfigResource settings;
    private final Admin admin;
    private final ObjectNode told = JSON.createObjectNode();

    private ForeignAdmin(JsonNode request) {
        this.request = request;
        topic = request.get("topic").asText();
        group = request.get("group").asText();
        partition = new TopicPartition(topic, 0);
        settings = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin = Admin.create(Map.of("bootstrap.servers", request.get("bootstrap").asText()));
    }

    static JsonNode administer(JsonNode request) throws Exception {
        try (ForeignAdmin round = new ForeignAdmin(request)) {
            round.makeTopic();
            round.changeTopic();
            ForeignClient.produce(request);
            round.askForOffsets();
            round.askForStorage();
            round.describeGroup();
            round.changeOffsets();
            round.describeCluster();
            round.deleteTopic();
            return round.told;
        }
    }

    @Override
    public void close() {
        admin.close();
    }

    private void makeTopic() throws Exception {
        NewTopic wanted = new NewTopic(topic, 2, (short) 1).configs(Map.of(RETENTION, "-1"));
        admin.createTopics(List.of(wanted)).all().get();
        until(() -> listedTopics().contains(topic));
        told.putObject("created")
                .put("partitions", described().partitions().size())
                .put("retention_ms", retention().value());
    }

    private void changeTopic() throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        until(() -> described().partitions().size() == 3);
        AlterConfigOp change = new AlterConfigOp(
                new ConfigEntry(RETENTION, RETENTION_MS), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(settings, List.of(change))).all().get();
        until(() -> retention().value().equals(RETENTION_MS));
        told.put("retention_source", retention().source().name());
        TopicDescription described = described();
        ObjectNode facts = told.putObject("described");
        ArrayNode numbers = facts.putArray("partitions");
        described.partitions().forEach((found) -> numbers.add(found.partition()));
        facts.put("leaders", described.partitions().stream()
                .map((found) -> found.leader().id()).distinct().count());
        facts.put("internal", described.isInternal());
    }

    private void askForOffsets() throws Exception {
        long time = request.get("messages").get(4).get("timestamp_ms").asLong();
        told.put("at_time", offset(OffsetSpec.forTimestamp(time)).offset());
        ListOffsetsResultInfo latestTime = offset(OffsetSpec.maxTimestamp());
        told.putObject("latest_time")
                .put("offset", latestTime.offset())
                .put("timestamp_ms", latestTime.timestamp());
        told.put("low", admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(3)))
                .lowWatermarks().get(partition).get().lowWatermark());
        told.put("earliest", offset(OffsetSpec.earliest()).offset());
        told.put("latest", offset(OffsetSpec.latest()).offset());
    }

    private void askForStorage() throws Exception {
        int broker = described().partitions().get(0).leader().id();
        long bytes = 0;
        Map<String, LogDirDescription> folders =
                admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        for (LogDirDescription folder : folders.values()) {
            if (folder.replicaInfos().containsKey(partition)) {
                bytes += folder.replicaInfos().get(partition).size();
            }
        }
        told.put("log_has_bytes", bytes > 0);
        told.put("producers", admin.describeProducers(List.of(partition))
                .partitionResult(partition).get().activeProducers().size());
    }

    private void describeGroup() throws Exception {
        String joined = request.get("joined").asText();
        ConsumerGroupDescription described =
                admin.describeConsumerGroups(List.of(joined)).all().get().get(joined);
        ObjectNode facts = told.putObject("joined");
        facts.put("state", described.groupState().toString());
        ArrayNode clients = facts.putArray("clients");
        described.members().forEach((member) -> clients.add(member.clientId()));
    }

    private void changeOffsets() throws Exception {
        admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(5)))
                .all().get();
        told.put("committed", committed().get(partition).offset());
        told.putArray("listed")
                .add(isListed(request.get("joined").asText()))
                .add(isListed(group));
        admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
        told.put("committed_after", committed().get(partition) != null);
        // Without offsets, Kafka may have dropped the group itself.
        admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(6)))
                .all().get();
        admin.deleteConsumerGroups(List.of(group)).all().get();
        told.put("listed_after", isListed(group));
    }

    private void describeCluster() throws Exception {
        ObjectNode facts = told.putObject("cluster");
        ArrayNode brokers = facts.putArray("brokers");
        for (Node node : admin.describeCluster().nodes().get()) {
            brokers.add(node.host() + ":" + node.port());
        }
        facts.put("named", !admin.describeCluster().clusterId().get().isEmpty());
    }

    private void deleteTopic() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        until(() -> !listedTopics().contains(topic));
        told.put("topic_after", listedTopics().contains(topic));
    }

    private Set<String> listedTopics() throws Exception {
        return admin.listTopics().names().get();
    }

    private TopicDescription described() throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private ConfigEntry retention() throws Exception {
        return admin.describeConfigs(List.of(settings)).all().get().get(settings).get(RETENTION);
    }

    private ListOffsetsResultInfo offset(OffsetSpec wanted) throws Exception {
        return admin.listOffsets(Map.of(partition, wanted)).partitionResult(partition).get();
    }

    private Map<TopicPartition, OffsetAndMetadata> committed() throws Exception {
        return admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec()))
                .partitionsToOffsetAndMetadata(group).get();
    }

    // By both ways of asking: of all groups, and of those of consumers.
    private boolean isListed(String name) throws Exception {
        boolean among = has(admin.listGroups().all().get(), name);
        boolean amongConsumers =
                has(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get(), name);
        if (among != amongConsumers) {
            throw new IllegalStateException(name + " is in one list of groups only");
        }
        return among;
    }

    private static boolean has(Collection<GroupListing> groups, String name) {
        return groups.stream().anyMatch((found) -> found.groupId().equals(name));
    }

    // Kafka's broker learns of a change a moment after the client was told that it is done.
    private static void until(Callable<Boolean> condition) throws Exception {
        long deadlineNs = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > deadlineNs) {
                throw new IllegalStateException("a change was not seen within " + PATIENCE);
            }
            Thread.sleep(20);
        }
    }
}
