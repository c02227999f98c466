package enumerating;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumStateSerializer;
import org.apache.flink.connector.kafka.source.enumerator.SplitAndAssignmentStatus;

/**
 * Reads lines of a version, tab, an enumerator's state of that version in hex, by the connector's own serializer. Writes
 * for each the splits that it found, whether their discovery is done, and the state as the connector writes it.
 */
public final class Enumerating {
    private Enumerating() {}

    public static void main(String[] args) throws Exception {
        KafkaSourceEnumStateSerializer serializer = new KafkaSourceEnumStateSerializer();
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            String[] parts = line.split("\t");
            KafkaSourceEnumState state =
                    serializer.deserialize(Integer.parseInt(parts[0]), HexFormat.of().parseHex(parts[1]));
            String splits = state.splits().stream().map(Enumerating::text).sorted().collect(Collectors.joining(";"));
            String written = HexFormat.of().formatHex(serializer.serialize(state));
            String discovered = String.valueOf(state.initialDiscoveryFinished());
            out.add(String.join("\t", splits, discovered, "" + serializer.getVersion(), written));
        }
        Files.write(Paths.get(args[1]), out, StandardCharsets.UTF_8);
    }

    private static String text(SplitAndAssignmentStatus item) {
        String stop = item.split().getStoppingOffset().map(String::valueOf).orElse("");
        return String.join(
                ",",
                item.split().getTopic(),
                "" + item.split().getPartition(),
                "" + item.split().getStartingOffset(),
                stop,
                item.assignmentStatus().name());
    }
}
