import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.cdc.connectors.mysql.source.offset.BinlogOffset;
import org.apache.flink.cdc.connectors.mysql.source.split.MySqlSplit;
import org.apache.flink.cdc.connectors.mysql.source.split.MySqlSplitSerializer;

/** Reads binlog splits by the connector, and says which offset the connector has for a position. */
public class Splits {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            MySqlSplit split = MySqlSplitSerializer.INSTANCE.deserialize(
                    Integer.parseInt(parts[0]), HexFormat.of().parseHex(parts[1]));
            BinlogOffset found = split.asBinlogSplit().getStartingOffset();
            System.out.println(shown(found.getOffset()) + "\t" + shown(own(parts).getOffset())
                    + "\t" + HexFormat.of().formatHex(MySqlSplitSerializer.INSTANCE.serialize(split)));
        }
    }

    private static BinlogOffset own(String[] parts) {
        switch (parts[2]) {
            case "file":
                return BinlogOffset.ofBinlogFilePosition(parts[3], Long.parseLong(parts[4]));
            case "gtids":
                return BinlogOffset.ofGtidSet(parts[3]);
            case "time":
                return BinlogOffset.ofTimestampSec(Long.parseLong(parts[3]));
            case "earliest":
                return BinlogOffset.ofEarliest();
            default:
                return BinlogOffset.ofLatest();
        }
    }

    private static String shown(Map<String, String> offset) {
        return new TreeMap<>(offset).toString();
    }
}
