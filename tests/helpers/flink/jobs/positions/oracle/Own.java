import java.util.TreeMap;
import org.apache.flink.cdc.connectors.base.source.meta.offset.Offset;
import org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory;
import org.apache.flink.cdc.connectors.oracle.source.meta.offset.RedoLogOffset;
import org.apache.flink.cdc.connectors.oracle.source.meta.offset.RedoLogOffsetFactory;

/** Oracle's offsets. */
class Own {
    static OffsetFactory factory() {
        return new RedoLogOffsetFactory();
    }

    static String offset(Offset found, String[] parts) {
        return new TreeMap<>(new RedoLogOffset(Long.parseLong(parts[3])).getOffset()).toString();
    }
}
