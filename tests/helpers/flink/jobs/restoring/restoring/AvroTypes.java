package restoring;

import fixtures.Json;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.specific.SpecificRecordBase;
import org.apache.flink.formats.avro.typeutils.AvroSerializer;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;

/** Avro records. */
final class AvroTypes {
    private AvroTypes() {}

    static Type generic(String schema) {
        return Type.of(new GenericRecordAvroTypeInfo(new Schema.Parser().parse(schema)), AvroTypes::view);
    }

    static Type specific(Class<?> type) {
        return Type.of(config -> new AvroSerializer<>(type.asSubclass(SpecificRecordBase.class)), AvroTypes::view);
    }

    private static Object view(Object value) {
        if (value instanceof IndexedRecord) {
            IndexedRecord record = (IndexedRecord) value;
            Map<String, Object> fields = new LinkedHashMap<>();
            for (Schema.Field field : record.getSchema().getFields()) {
                fields.put(field.name(), view(record.get(field.pos())));
            }
            return Language.object(fields);
        } else if (value instanceof Map) {
            Map<String, Object> entries = new LinkedHashMap<>();
            ((Map<?, ?>) value).forEach((key, item) -> entries.put(key.toString(), view(item)));
            return entries;
        } else if (value instanceof List) {
            List<Object> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(view(item)));
            return items;
        } else if (value instanceof ByteBuffer) {
            byte[] bytes = new byte[((ByteBuffer) value).remaining()];
            ((ByteBuffer) value).duplicate().get(bytes);
            return bytes;
        } else if (value instanceof GenericFixed) {
            return ((GenericFixed) value).bytes();
        }
        boolean json = value == null || value instanceof Number || value instanceof Boolean;
        return json ? value : new Json.Raw(Json.of(value.toString()));
    }
}
