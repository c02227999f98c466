package restoring;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.ExternalSerializer;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.types.RowKind;

/** The internal data of SQL: rows, arrays, maps, strings … of a logical type. */
final class SqlTypes {
    private SqlTypes() {}

    static Type internal(String logical) {
        LogicalType type = LogicalTypeParser.parse(logical, SqlTypes.class.getClassLoader());
        return Type.of(InternalTypeInfo.of(type), value -> view(value, type));
    }

    /** What data views of aggregates keep: values of external classes, such as Long or String. */
    static Type external(String logical) {
        LogicalType type = LogicalTypeParser.parse(logical, SqlTypes.class.getClassLoader());
        DataType external = TypeConversions.fromLogicalToDataType(type);
        return Type.of(config -> ExternalSerializer.of(external), value -> view(value, type));
    }

    private static Object view(Object value, LogicalType type) {
        if (value instanceof RowData) {
            return row((RowData) value, (RowType) type);
        } else if (value instanceof MapData) {
            MapType map = (MapType) type;
            List<Object> keys = array(((MapData) value).keyArray(), map.getKeyType());
            List<Object> values = array(((MapData) value).valueArray(), map.getValueType());
            Map<Object, Object> entries = new LinkedHashMap<>();
            for (int at = 0; at < keys.size(); at++) {
                entries.put(keys.get(at), values.get(at));
            }
            return entries;
        } else if (value instanceof ArrayData) {
            return array((ArrayData) value, ((ArrayType) type).getElementType());
        } else if (value instanceof StringData) {
            return value.toString();
        } else if (value instanceof DecimalData) {
            return ((DecimalData) value).toBigDecimal();
        } else if (value instanceof TimestampData) {
            TimestampData stamp = (TimestampData) value;
            boolean local = type.getTypeRoot() == LogicalTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE;
            return local ? stamp.toInstant() : stamp.toLocalDateTime();
        } else if (type.getTypeRoot() == LogicalTypeRoot.DATE) {
            return java.time.LocalDate.ofEpochDay((Integer) value);
        } else if (type.getTypeRoot() == LogicalTypeRoot.TIME_WITHOUT_TIME_ZONE) {
            return java.time.LocalTime.ofNanoOfDay((Integer) value * 1_000_000L);
        }
        return value;
    }

    private static Object row(RowData row, RowType type) {
        Map<String, Object> fields = new LinkedHashMap<>();
        if (row.getRowKind() != RowKind.INSERT) {
            fields.put("kind", row.getRowKind().shortString());
        }
        for (int at = 0; at < type.getFieldCount(); at++) {
            LogicalType field = type.getTypeAt(at);
            Object value = RowData.createFieldGetter(field, at).getFieldOrNull(row);
            fields.put(type.getFieldNames().get(at), value == null ? null : view(value, field));
        }
        return Language.object(fields);
    }

    private static List<Object> array(ArrayData array, LogicalType element) {
        ArrayData.ElementGetter getter = ArrayData.createElementGetter(element);
        List<Object> items = new ArrayList<>();
        for (int at = 0; at < array.size(); at++) {
            Object item = getter.getElementOrNull(array, at);
            items.add(item == null ? null : view(item, element));
        }
        return items;
    }
}
