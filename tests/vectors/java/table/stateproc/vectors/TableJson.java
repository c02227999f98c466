package stateproc.vectors;

import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.StructuredType;

/** Table-internal values as JSON: the logical type gives them their meaning. */
final class TableJson {
    private static final String[] KINDS = {"+I", "-U", "+U", "-D"};

    private TableJson() {}

    static Object of(Object value, LogicalType type) throws Exception {
        if (value == null) {
            return null;
        }
        switch (type.getTypeRoot().name()) {
            case "DATE":
                return LocalDate.ofEpochDay((Integer) value).toString();
            case "TIME_WITHOUT_TIME_ZONE":
                return LocalTime.ofNanoOfDay((Integer) value * 1_000_000L).toString();
            case "TIMESTAMP_WITHOUT_TIME_ZONE":
                return ((TimestampData) value).toLocalDateTime().toString();
            case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
                return ((TimestampData) value).toInstant().toString();
            case "DECIMAL":
                return ((DecimalData) value).toBigDecimal().toString();
            case "CHAR":
            case "VARCHAR":
                return value.toString();
            case "ROW":
                return row((RowData) value, ((RowType) type).getFieldNames(), type.getChildren());
            case "STRUCTURED_TYPE":
                List<String> names = new ArrayList<>();
                ((StructuredType) type).getAttributes().forEach(attribute -> names.add(attribute.getName()));
                return row((RowData) value, names, type.getChildren());
            case "ARRAY":
                return array((ArrayData) value, ((ArrayType) type).getElementType());
            case "MAP":
                return map((MapData) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case "MULTISET":
                return map((MapData) value, ((MultisetType) type).getElementType(), new IntType(false));
            case "RAW":
                return raw((RawValueData<?>) value, Reflect.call(type, "getTypeSerializer"));
            default:
                return Encode.value(value);
        }
    }

    @SuppressWarnings("unchecked")
    static Object raw(RawValueData<?> value, Object serializer) throws Exception {
        org.apache.flink.api.common.typeutils.TypeSerializer<Object> typed =
                (org.apache.flink.api.common.typeutils.TypeSerializer<Object>) serializer;
        RawValueData<Object> raw = (RawValueData<Object>) value;
        return Json.object("raw", Encode.value(raw.toBytes(typed)), "value", Encode.value(raw.toObject(typed)));
    }

    static Object row(RowData row, List<String> names, List<LogicalType> types) throws Exception {
        Map<String, Object> fields = Json.object();
        for (int i = 0; i < names.size(); i++) {
            Object field = row.isNullAt(i) ? null : RowData.createFieldGetter(types.get(i), i).getFieldOrNull(row);
            fields.put(names.get(i), of(field, types.get(i)));
        }
        if (row.getRowKind().ordinal() > 0) {
            fields.put("kind", KINDS[row.getRowKind().ordinal()]);
        }
        return fields;
    }

    private static List<Object> array(ArrayData array, LogicalType element) throws Exception {
        List<Object> items = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            Object item = array.isNullAt(i) ? null : ArrayData.createElementGetter(element).getElementOrNull(array, i);
            items.add(of(item, element));
        }
        return items;
    }

    private static List<Object> map(MapData map, LogicalType key, LogicalType value) throws Exception {
        List<Object> keys = array(map.keyArray(), key);
        List<Object> values = array(map.valueArray(), value);
        List<Object> entries = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            entries.add(Json.object("key", keys.get(i), "value", values.get(i)));
        }
        return entries;
    }
}
