package compatibility;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Values as text, by their fields: two values with one text are equal. */
public final class Shown {
    private Shown() {}

    /** A value of a case; of SQL's types the bytes that the serializer writes. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static String of(Object value, TypeSerializer serializer, Case one) throws Exception {
        if (!one.group.equals("SQL")) {
            return of(value);
        }
        DataOutputSerializer out = new DataOutputSerializer(64);
        serializer.serialize(value, out);
        return Recording.hex(out.getCopyOfBuffer());
    }

    static String of(Object value) throws Exception {
        if (value == null || value instanceof CharSequence || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Optional) {
            return "Optional[" + of(((Optional<?>) value).orElse(null)) + "]";
        }
        if (value.getClass().isArray()) {
            List<String> items = new ArrayList<>();
            for (int at = 0; at < Array.getLength(value); at++) {
                items.add(of(Array.get(value, at)));
            }
            return items.toString();
        }
        if (value instanceof Collection) {
            List<String> items = new ArrayList<>();
            for (Object item : (Collection<?>) value) {
                items.add(of(item));
            }
            if (value instanceof Set) {
                Collections.sort(items);
            }
            return items.toString();
        }
        if (value instanceof Map) {
            List<String> items = new ArrayList<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                items.add(of(entry.getKey()) + "=" + of(entry.getValue()));
            }
            Collections.sort(items);
            return "{" + String.join(", ", items) + "}";
        }
        if (value instanceof Tuple) {
            List<String> items = new ArrayList<>();
            for (int at = 0; at < ((Tuple) value).getArity(); at++) {
                items.add(of(((Tuple) value).getField(at)));
            }
            return "(" + String.join(", ", items) + ")";
        }
        if (value instanceof Row) {
            List<String> items = new ArrayList<>();
            for (int at = 0; at < ((Row) value).getArity(); at++) {
                items.add(of(((Row) value).getField(at)));
            }
            return "Row(" + String.join(", ", items) + ")";
        }
        if (value instanceof Either) {
            Either<?, ?> either = (Either<?, ?>) value;
            return either.isLeft() ? "Left(" + of(either.left()) + ")" : "Right(" + of(either.right()) + ")";
        }
        String name = value.getClass().getName();
        if (!name.startsWith("compatibility.") && !name.contains("TtlValue") || value.getClass().isEnum()) {
            return value.toString();
        }
        List<String> fields = new ArrayList<>();
        for (Class<?> type = value.getClass(); type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    fields.add(field.getName() + ": " + of(field.get(value)));
                }
            }
        }
        Collections.sort(fields);
        return value.getClass().getSimpleName() + "{" + String.join(", ", fields) + "}";
    }
}
