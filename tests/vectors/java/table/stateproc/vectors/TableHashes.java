package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;

/** Hashes of SQL keys: binary rows of every column type, and strings. */
final class TableHashes {
    private TableHashes() {}

    @SuppressWarnings("unchecked")
    static void write(Vectors vectors) throws Exception {
        List<Object> found = (List<Object>) vectors.document.get("hashes");
        for (Object text : Samples.STRINGS) {
            boolean paired = text.toString().equals(new String(text.toString().getBytes("UTF-8"), "UTF-8"));
            if (paired) {
                Hashes.addTree(found, "StringData", text, StringData.fromString(text.toString()));
            }
        }
        row(found, new ArrayList<>(), new GenericRowData(0));
        List<Column> columns = Columns.all();
        for (Column column : columns) {
            vectors.attempt("hash of " + column.name, () -> {
                for (Object value : column.values) {
                    row(found, Arrays.asList(column.type), GenericRowData.of(value));
                }
            });
        }
        LogicalType text = columns.stream().filter(column -> column.name.startsWith("STRING")).findFirst().get().type;
        LogicalType number = columns.stream().filter(column -> column.name.equals("BIGINT")).findFirst().get().type;
        row(found, Arrays.asList(text, number), GenericRowData.of(StringData.fromString("customer é"), -7L));
        row(found, Arrays.asList(text, number), GenericRowData.of(null, null));
        row(found, Arrays.asList(number, text), GenericRowData.of(7L, StringData.fromString("short")));
    }

    @SuppressWarnings("unchecked")
    private static void row(List<Object> found, List<LogicalType> types, GenericRowData row) throws Exception {
        RowType type = RowType.of(types.toArray(new LogicalType[0]));
        BinaryRowData key = new RowDataSerializer(type).toBinaryRow(row).copy();
        Hashes.addTree(found, "RowData", TableJson.of(key, type), key);
        Map<String, Object> entry = (Map<String, Object>) found.get(found.size() - 1);
        entry.put("columns", types.stream().map(LogicalType::asSummaryString).collect(Collectors.toList()));
        entry.put("content", Vectors.hex(TableTypes.bytes(key)));
    }
}
