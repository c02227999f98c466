import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.flink.connector.pulsar.source.split.PulsarPartitionSplit;
import org.apache.flink.connector.pulsar.source.split.PulsarPartitionSplitSerializer;
import org.apache.pulsar.client.impl.MessageIdImpl;

/** Reads splits by the connector, and says which bytes Pulsar's client has for a message id. */
public class Splits {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            PulsarPartitionSplitSerializer serializer = PulsarPartitionSplitSerializer.INSTANCE;
            PulsarPartitionSplit split =
                    serializer.deserialize(Integer.parseInt(parts[0]), HexFormat.of().parseHex(parts[1]));
            MessageIdImpl own = new MessageIdImpl(
                    Long.parseLong(parts[3]), Long.parseLong(parts[4]), split.getPartition().getPartitionId());
            System.out.println(HexFormat.of().formatHex(split.getLatestConsumedId().toByteArray())
                    + "\t" + HexFormat.of().formatHex(own.toByteArray())
                    + "\t" + HexFormat.of().formatHex(serializer.serialize(split)));
        }
    }
}
