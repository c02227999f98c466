import java.util.TreeMap;
import org.apache.flink.cdc.connectors.base.source.meta.offset.Offset;
import org.apache.flink.cdc.connectors.base.source.meta.offset.OffsetFactory;
import org.apache.flink.cdc.connectors.mongodb.source.offset.ChangeStreamOffset;
import org.apache.flink.cdc.connectors.mongodb.source.offset.ChangeStreamOffsetFactory;
import org.bson.BsonDocument;
import org.bson.BsonTimestamp;

/** MongoDB's offsets. */
class Own {
    static OffsetFactory factory() {
        return new ChangeStreamOffsetFactory();
    }

    static String offset(Offset found, String[] parts) {
        ChangeStreamOffset own;
        switch (parts[2]) {
            case "token":
                own = new ChangeStreamOffset(BsonDocument.parse(parts[3]));
                break;
            case "timestamp":
                own = new ChangeStreamOffset(new BsonTimestamp(Integer.parseInt(parts[3]), Integer.parseInt(parts[4])));
                break;
            default:
                own = (ChangeStreamOffset) new ChangeStreamOffsetFactory().createTimestampOffset(Long.parseLong(parts[3]));
        }
        return new TreeMap<>(own.getOffset()).toString();
    }
}
