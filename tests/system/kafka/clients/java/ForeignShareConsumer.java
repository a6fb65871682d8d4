// A member of a share group until it is killed, or the end of its input: tells each record as a
// line of offset, delivery count and value, and acknowledges it as its last argument says.

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class ForeignShareConsumer {
    private ForeignShareConsumer() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0],
                "group.id", arguments[1],
                "max.poll.records", 10,
                "share.acknowledgement.mode", "explicit");
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(record.offset() + " " + record.deliveryCount().orElseThrow()
                            + " " + new String(record.value(), StandardCharsets.UTF_8));
                    if (arguments[3].equals("HOLD")) {
                        Thread.sleep(Long.MAX_VALUE);
                    }
                    consumer.acknowledge(record, AcknowledgeType.valueOf(arguments[3]));
                }
            }
        }
    }
}
