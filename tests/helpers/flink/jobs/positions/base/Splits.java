import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.TreeMap;
import org.apache.flink.cdc.connectors.base.source.meta.offset.Offset;
import org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory;
import org.apache.flink.cdc.connectors.base.source.meta.split.SourceSplitBase;
import org.apache.flink.cdc.connectors.base.source.meta.split.SourceSplitSerializer;

/** Reads stream splits by the connector, and says which offset the connector has for a position. */
public class Splits {
    public static void main(String[] args) throws Exception {
        OffsetFactory factory = Own.factory();
        SourceSplitSerializer serializer = new SourceSplitSerializer() {
            @Override
            public OffsetFactory getOffsetFactory() {
                return factory;
            }
        };
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            SourceSplitBase split =
                    serializer.deserialize(Integer.parseInt(parts[0]), HexFormat.of().parseHex(parts[1]));
            Offset found = split.asStreamSplit().getStartingOffset();
            System.out.println(new TreeMap<>(found.getOffset()) + "\t" + Own.offset(found, parts)
                    + "\t" + HexFormat.of().formatHex(serializer.serialize(split)));
        }
    }
}
