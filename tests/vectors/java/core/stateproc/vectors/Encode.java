package stateproc.vectors;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.URI;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Java values as the JSON trees the README of this directory describes. */
final class Encode {
    private static final String[] KINDS = {"+I", "-U", "+U", "-D"};

    private Encode() {}

    static Object value(Object value) throws Exception {
        return value(value, new ArrayList<>());
    }

    private static Object value(Object value, List<Object> path) throws Exception {
        if (value == null || value instanceof Boolean || value instanceof Byte || value instanceof Short
                || value instanceof Integer || value instanceof Long) {
            return value;
        }
        if (value instanceof Float || value instanceof Double) {
            return number(((Number) value).doubleValue());
        }
        if (value instanceof java.sql.Date || value instanceof java.sql.Time) {
            return Json.object("millis", ((java.util.Date) value).getTime());
        }
        if (value instanceof java.sql.Timestamp) {
            return ((java.sql.Timestamp) value).toInstant().toString();
        }
        if (value instanceof java.util.Date) {
            return Instant.ofEpochMilli(((java.util.Date) value).getTime()).toString();
        }
        if (value instanceof CharSequence || value instanceof Character || value instanceof BigInteger
                || value instanceof BigDecimal || value instanceof UUID || value instanceof URI
                || value instanceof java.util.Locale || value.getClass().getName().startsWith("java.time.")) {
            return value.toString();
        }
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        if (value instanceof byte[]) {
            return Base64.getEncoder().encodeToString((byte[]) value);
        }
        if (value instanceof Throwable) {
            return Json.object("class", value.getClass().getName(), "message", ((Throwable) value).getMessage());
        }
        for (int i = 0; i < path.size(); i++) {
            if (path.get(i) == value) {
                return Json.object("cycle", path.size() - i);
            }
        }
        path.add(value);
        Object encoded = nested(value, path);
        path.remove(path.size() - 1);
        return encoded;
    }

    private static Object nested(Object value, List<Object> path) throws Exception {
        if (value.getClass().isArray()) {
            List<Object> items = new ArrayList<>();
            for (int i = 0; i < Array.getLength(value); i++) {
                items.add(value(Array.get(value, i), path));
            }
            return items;
        }
        if (value instanceof BitSet) {
            return ((BitSet) value).stream().boxed().collect(java.util.stream.Collectors.toList());
        }
        if (value instanceof java.util.Optional) {
            return value(((java.util.Optional<?>) value).orElse(null), path);
        }
        if (value instanceof Map) {
            List<Object> entries = new ArrayList<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                entries.add(Json.object("key", value(entry.getKey(), path), "value", value(entry.getValue(), path)));
            }
            return entries;
        }
        if (value instanceof Iterable) {
            List<Object> items = new ArrayList<>();
            for (Object item : (Iterable<?>) value) {
                items.add(value(item, path));
            }
            return items;
        }
        if (value instanceof Either) {
            Either<?, ?> either = (Either<?, ?>) value;
            return either.isLeft()
                    ? Json.object("left", value(either.left(), path))
                    : Json.object("right", value(either.right(), path));
        }
        if (value instanceof Tuple) {
            Map<String, Object> fields = Json.object();
            for (int i = 0; i < ((Tuple) value).getArity(); i++) {
                fields.put("f" + i, value(((Tuple) value).getField(i), path));
            }
            return fields;
        }
        if (value instanceof Row) {
            return row((Row) value, path);
        }
        Map<String, Object> fields = new TreeMap<>();
        for (Class<?> type = value.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && !Modifier.isTransient(field.getModifiers())) {
                    field.setAccessible(true);
                    fields.put(field.getName(), value(field.get(value), path));
                }
            }
        }
        return fields;
    }

    private static Object row(Row row, List<Object> path) throws Exception {
        Map<String, Object> fields = Json.object();
        for (int i = 0; i < row.getArity(); i++) {
            fields.put("f" + i, value(row.getField(i), path));
        }
        if (Reflect.exists("org.apache.flink.types.RowKind")) {
            Object kind = Reflect.call(row, "getKind");
            if (((Enum<?>) kind).ordinal() > 0) {
                fields.put("kind", KINDS[((Enum<?>) kind).ordinal()]);
            }
        }
        return fields;
    }

    private static Object number(double number) {
        boolean negativeZero = number == 0 && 1 / number < 0;
        return Double.isNaN(number) || Double.isInfinite(number) || negativeZero ? Double.toString(number) : (Object) number;
    }
}
