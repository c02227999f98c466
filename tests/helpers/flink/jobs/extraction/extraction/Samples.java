package extraction;

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.types.Either;

/** Makes a value of a type. */
final class Samples {
    private static final List<Object> PLAIN = List.of(
            "text", true, 'x', (byte) 1, (short) 2, 3, 4L, 5f, 6d, new BigDecimal("7.50"), BigInteger.TEN,
            Instant.ofEpochSecond(8, 9), new Date(10), new java.sql.Date(11), new java.sql.Time(12),
            new java.sql.Timestamp(13), LocalDate.of(2014, 1, 5), LocalDateTime.of(2016, 1, 7, 8, 9),
            Duration.ofSeconds(18), new UUID(19, 20));

    private Samples() {}

    /** The bytes that the serializer writes of a value of the type, in hex; "-" where none is made. */
    @SuppressWarnings("unchecked")
    static String written(TypeSerializer<?> serializer, Type type) {
        try {
            Object value = value(type, type, 0);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ((TypeSerializer<Object>) serializer).serialize(value, new DataOutputViewStreamWrapper(out));
            StringBuilder hex = new StringBuilder();
            for (byte item : out.toByteArray()) {
                hex.append(String.format("%02x", item));
            }
            return hex.toString();
        } catch (Exception | LinkageError error) {
            return "-";
        }
    }

    private static Object value(Type type, Type owner, int depth) throws Exception {
        if (type instanceof WildcardType) {
            Type[] lower = ((WildcardType) type).getLowerBounds();
            return value(lower.length > 0 ? lower[0] : ((WildcardType) type).getUpperBounds()[0], owner, depth);
        }
        if (type instanceof TypeVariable) {
            return value(bound((TypeVariable<?>) type, owner), owner, depth);
        }
        if (type instanceof GenericArrayType) {
            Object item = value(((GenericArrayType) type).getGenericComponentType(), owner, depth);
            Object items = Array.newInstance(item.getClass(), 1);
            Array.set(items, 0, item);
            return items;
        }
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type);
        Object[] arguments = type instanceof ParameterizedType
                ? values(((ParameterizedType) type).getActualTypeArguments(), owner, depth) : new Object[] {"a", "b"};
        Object collection = collection(raw, arguments);
        return collection != null ? collection : single(raw, type, arguments, depth);
    }

    private static Type bound(TypeVariable<?> variable, Type owner) {
        if (owner instanceof ParameterizedType) {
            return ((ParameterizedType) owner).getActualTypeArguments()[0];
        }
        return owner == Fields.Sub.class ? Long.class : Object.class;
    }

    private static Object[] values(Type[] types, Type owner, int depth) throws Exception {
        Object[] made = new Object[types.length];
        for (int at = 0; at < types.length; at++) {
            made[at] = value(types[at], owner, depth + 1);
        }
        return made;
    }

    private static Object collection(Class<?> raw, Object[] items) {
        if (raw == List.class || raw == Collection.class || raw == Iterable.class) {
            return new ArrayList<>(Arrays.asList(items[0], null));
        }
        for (Collection<Object> made : List.<Collection<Object>>of(
                new ArrayList<>(), new HashSet<>(), new LinkedList<>(), new ArrayDeque<>(), new TreeSet<>())) {
            if (raw != Object.class && raw.isInstance(made)) {
                made.add(items[0]);
                return made;
            }
        }
        if (raw == Map.class) {
            return new HashMap<>(Collections.singletonMap(items[0], items[1]));
        }
        for (Map<Object, Object> made : List.<Map<Object, Object>>of(
                new LinkedHashMap<>(), new TreeMap<>(), new ConcurrentHashMap<>())) {
            if (raw != Object.class && raw.isInstance(made)) {
                made.put(items[0], items[1]);
                return made;
            }
        }
        return raw == Optional.class ? Optional.of(items[0]) : null;
    }

    private static Object single(Class<?> raw, Type type, Object[] arguments, int depth) throws Exception {
        if (raw == Void.class || depth > 3) {
            return null;
        }
        for (Object plain : PLAIN) {
            if (raw.isInstance(plain) || raw == primitive(plain)) {
                return raw == Number.class ? (Object) 7 : plain;
            }
        }
        if (raw.isArray()) {
            Object items = Array.newInstance(raw.getComponentType(), 2);
            Array.set(items, 0, value(raw.getComponentType(), raw.getComponentType(), depth + 1));
            Array.set(items, 1, value(raw.getComponentType(), raw.getComponentType(), depth + 1));
            return items;
        }
        if (raw.isEnum()) {
            return raw.getEnumConstants()[1];
        }
        if (raw == Either.class) {
            return Either.Left(arguments[0]);
        }
        if (Tuple.class.isAssignableFrom(raw) && raw.getPackageName().startsWith("org.apache.flink")) {
            Tuple made = Tuple.newInstance(arguments.length);
            for (int at = 0; at < arguments.length; at++) {
                made.setField(arguments[at], at);
            }
            return made;
        }
        return object(raw, type, depth);
    }

    private static Class<?> primitive(Object box) throws Exception {
        try {
            return (Class<?>) box.getClass().getField("TYPE").get(null);
        } catch (NoSuchFieldException none) {
            return null;
        }
    }

    private static Object object(Class<?> raw, Type type, int depth) throws Exception {
        Constructor<?> constructor = raw.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        Object made = constructor.newInstance(values(constructor.getGenericParameterTypes(), type, depth));
        for (Class<?> at = raw; at != Object.class && !raw.isRecord(); at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())) {
                    continue;
                }
                field.setAccessible(true);
                Object value = Tuple.class.isAssignableFrom(at) && at != raw
                        ? (field.getName().equals("f0") ? "text" : (Object) 4L)
                        : field.getType() == raw ? null : value(field.getGenericType(), type, depth + 1);
                field.set(made, value);
            }
        }
        return made;
    }
}
