package stateproc.types;

import java.lang.reflect.Method;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;

/** What SQL operators store, by the SQL type. */
final class SqlTypes {
    private SqlTypes() {}

    private static final String[] TYPES = {
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT NOT NULL", "FLOAT", "DOUBLE", "CHAR(3)", "VARCHAR(20)",
        "STRING", "BINARY(4)", "VARBINARY(10)", "BYTES", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "DATE", "TIME(3)",
        "TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "ARRAY<INT>",
        "ARRAY<STRING NOT NULL>", "ARRAY<DECIMAL(20, 5)>", "MAP<STRING, BIGINT>", "MAP<INT, TIMESTAMP(9)>",
        "MULTISET<STRING>", "ROW<>", "ROW<id BIGINT NOT NULL, name STRING, at TIMESTAMP(3)>",
        "ROW<a ROW<b INT, c ROW<d CHAR(1)>> NOT NULL, `with space` BYTES, l TIMESTAMP_LTZ(6)>",
        "ROW<t BOOLEAN, u TINYINT, v SMALLINT, w FLOAT, x DOUBLE, y DATE, z TIME(0), d DECIMAL(38, 38)>",
        "ROW<xs ARRAY<INT>, m MAP<STRING, DOUBLE>, s MULTISET<INT>>"
    };

    static void all() throws Exception {
        for (String text : TYPES) {
            LogicalType type;
            try {
                type = parse(text);
            } catch (java.lang.reflect.InvocationTargetException unknown) {
                continue;
            }
            TypeSerializer<?> serializer = InternalSerializers.create(type);
            Main.serializer("SQL " + text, serializer);
        }
    }

    private static LogicalType parse(String text) throws Exception {
        try {
            Method method = LogicalTypeParser.class.getMethod("parse", String.class, ClassLoader.class);
            return (LogicalType) method.invoke(null, text, SqlTypes.class.getClassLoader());
        } catch (NoSuchMethodException older) {
            return (LogicalType) LogicalTypeParser.class.getMethod("parse", String.class).invoke(null, text);
        }
    }
}
