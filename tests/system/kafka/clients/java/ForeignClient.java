// The Java client as a driver: calls come as lines of JSON on standard input, answers go as lines
// to standard output, bytes as base64. Its counterpart is drivers/remote.py.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;

public final class ForeignClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);
    private static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private ForeignClient() {}

    public static void main(String[] arguments) throws IOException {
        String line;
        while ((line = INPUT.readLine()) != null) {
            ObjectNode answer = JSON.createObjectNode().put("event", "answer");
            try {
                answer.set("result", serve(JSON.readTree(line)));
            } catch (Exception error) {
                answer.put("error", String.valueOf(error) + " " + error.getCause());
            }
            tell(answer);
        }
        System.exit(0);
    }

    private static JsonNode serve(JsonNode request) throws Exception {
        switch (request.get("call").asText()) {
            case "produce":
                return produce(request);
            case "consume":
                return consume(request);
            case "consumeInGroup":
                return consumeInGroup(request);
            case "offsetAt":
                return offsetAt(request);
            case "member":
                return member(request);
            case "admin":
                return ForeignAdmin.administer(request);
            case "tool":
                return tool(request);
            default:
                throw new IllegalArgumentException("unknown call: " + request);
        }
    }

    static JsonNode produce(JsonNode request) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", request.get("bootstrap").asText());
        settings.put("compression.type", request.get("codec").asText());
        settings.put("acks", request.get("acks").asText());
        settings.put("enable.idempotence", request.get("idempotent").asBoolean());
        settings.put("linger.ms", 20);
        List<Future<?>> sent = new ArrayList<>();
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(
                settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode message : request.get("messages")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : message.get("headers")) {
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                }
                JsonNode time = message.get("timestamp_ms");
                sent.add(producer.send(new ProducerRecord<>(
                        request.get("topic").asText(),
                        0,
                        time.isNull() ? null : time.asLong(),
                        bytes(message.get("key")),
                        bytes(message.get("value")),
                        headers)));
            }
            for (Future<?> one : sent) {
                one.get();
            }
        }
        return JSON.nullNode();
    }

    private static JsonNode consume(JsonNode request) {
        Map<String, Integer> counts = new LinkedHashMap<>();
        request.get("counts").properties().forEach(
                (count) -> counts.put(count.getKey(), count.getValue().asInt()));
        try (Consumer<byte[], byte[]> consumer = consumer(request, Map.of())) {
            List<TopicPartition> partitions = new ArrayList<>();
            counts.keySet().forEach((topic) -> partitions.add(new TopicPartition(topic, 0)));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            return read(consumer, counts);
        }
    }

    private static JsonNode consumeInGroup(JsonNode request) {
        String topic = request.get("topic").asText();
        Map<String, Object> more = Map.of(
                "group.id", request.get("group").asText(), "auto.offset.reset", "earliest");
        try (Consumer<byte[], byte[]> consumer = consumer(request, more)) {
            consumer.subscribe(List.of(topic));
            JsonNode records = read(consumer, Map.of(topic, request.get("count").asInt()));
            JsonNode list = records.get(topic);
            long after = list.get(list.size() - 1).get("offset").asLong() + 1;
            consumer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(after)));
            return list;
        }
    }

    private static JsonNode offsetAt(JsonNode request) {
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        try (Consumer<byte[], byte[]> consumer = consumer(request, Map.of())) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(
                    Map.of(partition, request.get("timestamp_ms").asLong())).get(partition);
            return found == null ? JSON.nullNode() : JSON.getNodeFactory().numberNode(found.offset());
        }
    }

    private static ObjectNode read(
            Consumer<byte[], byte[]> consumer, Map<String, Integer> counts) {
        ObjectNode records = JSON.createObjectNode();
        counts.keySet().forEach(records::putArray);
        int missing = counts.values().stream().mapToInt(Integer::intValue).sum();
        while (missing > 0) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                ArrayNode list = (ArrayNode) records.get(record.topic());
                if (list.size() < counts.get(record.topic())) {
                    list.add(toJson(record));
                    missing -= 1;
                }
            }
        }
        return records;
    }

    // One of Kafka's command line tools, in this process: what it printed, and its exit code.
    private static JsonNode tool(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach((argument) -> arguments.add(argument.asText()));
        PrintStream output = System.out;
        PrintStream errors = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream captured = new PrintStream(printed, true, StandardCharsets.UTF_8);
        List<Integer> codes = new ArrayList<>();
        Exit.setExitProcedure((status, message) -> {
            codes.add(status);
            throw new ToolEnded();
        });
        System.setIn(new ByteArrayInputStream(bytes(request.get("input"))));
        System.setOut(captured);
        System.setErr(captured);
        try {
            Method main = Class.forName(request.get("name").asText())
                    .getMethod("main", String[].class);
            main.invoke(null, (Object) arguments.toArray(String[]::new));
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof ToolEnded)) {
                throw error;
            }
        } finally {
            System.setOut(output);
            System.setErr(errors);
        }
        return JSON.createObjectNode()
                // Some tools catch even errors, and then end a second time.
                .put("code", codes.isEmpty() ? 0 : codes.get(0))
                .put("printed", printed.toString(StandardCharsets.UTF_8));
    }

    // Not an Exception: many tools catch all of those.
    private static final class ToolEnded extends Error {}

    // A member of a group until a line or the end of the input comes: tells what it owns and reads.
    private static JsonNode member(JsonNode request) throws IOException {
        Map<String, Object> more = new HashMap<>();
        more.put("group.id", request.get("group").asText());
        more.put("auto.offset.reset", "earliest");
        more.put("enable.auto.commit", true);
        more.put("auto.commit.interval.ms", 200);
        if (request.get("protocol").asText().equals("consumer")) {
            more.put("group.protocol", "consumer");
        } else {
            more.put("session.timeout.ms", request.get("session_timeout_ms").asInt());
            more.put("heartbeat.interval.ms", 500);
            more.put("partition.assignment.strategy",
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        }
        if (request.hasNonNull("instance")) {
            more.put("group.instance.id", request.get("instance").asText());
        }
        List<String> topics = new ArrayList<>();
        request.get("topics").forEach((topic) -> topics.add(topic.asText()));
        try (Consumer<byte[], byte[]> consumer = consumer(request, more)) {
            consumer.subscribe(topics, new Telling(consumer));
            while (!INPUT.ready()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    String value = new String(record.value(), StandardCharsets.UTF_8);
                    tell(JSON.createObjectNode().put("event", "read").put("value", value));
                }
            }
            INPUT.readLine();
        }
        return JSON.nullNode();
    }

    private static final class Telling implements ConsumerRebalanceListener {
        private final Consumer<byte[], byte[]> consumer;

        Telling(Consumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell(withPartitions("assigned", partitions)
                    .put("generation", consumer.groupMetadata().generationId()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell(withPartitions("revoked", partitions));
        }
    }

    private static ObjectNode withPartitions(
            String event, Collection<TopicPartition> partitions) {
        ObjectNode told = JSON.createObjectNode().put("event", event);
        ArrayNode list = told.putArray("partitions");
        for (TopicPartition partition : partitions) {
            list.addArray().add(partition.topic()).add(partition.partition());
        }
        return told;
    }

    private static Consumer<byte[], byte[]> consumer(JsonNode request, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", request.get("bootstrap").asText());
        settings.put("enable.auto.commit", false);
        settings.put("fetch.max.wait.ms", 20);
        settings.putAll(more);
        return new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static ObjectNode toJson(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode told = JSON.createObjectNode()
                .put("partition", record.partition())
                .put("offset", record.offset())
                .put("key", record.key())
                .put("value", record.value())
                .put("timestamp_ms", record.timestamp());
        ArrayNode headers = told.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return told;
    }

    private static byte[] bytes(JsonNode text) throws IOException {
        return text.isNull() ? null : text.binaryValue();
    }

    // The same clock in every process of the machine, so that events of several can be ordered.
    private static synchronized void tell(ObjectNode event) {
        System.out.println(event.put("at_ns", String.valueOf(System.nanoTime())));
        System.out.flush();
    }
}
