// A member of a share group until it is killed, or the end of its input: tells each record as a
// line of offset, delivery count and value, and acknowledges it as its last argument says. With
// MIXED that goes by the value, as with share_member.go, and is told behind each line.

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
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
                    String value = new String(record.value(), StandardCharsets.UTF_8);
                    short count = record.deliveryCount().orElseThrow();
                    boolean isMixed = arguments[3].equals("MIXED");
                    String how = isMixed ? outcome(Integer.parseInt(value), count) : arguments[3];
                    System.out.println(record.offset() + " " + count + " " + value
                            + (isMixed ? " " + how.toLowerCase(Locale.ROOT) : ""));
                    if (how.equals("HOLD")) {
                        Thread.sleep(Long.MAX_VALUE);
                    }
                    consumer.acknowledge(record, AcknowledgeType.valueOf(how));
                }
            }
        }
    }

    private static String outcome(int number, short count) {
        return switch (number % 10) {
            case 7 -> "REJECT";
            case 3, 4 -> count == 1 ? "RELEASE" : "ACCEPT";
            default -> "ACCEPT";
        };
    }
}
