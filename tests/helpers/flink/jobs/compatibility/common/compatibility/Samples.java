package compatibility;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.types.Either;
import org.apache.flink.types.Row;

/** Values of types, the same in every release. */
public final class Samples {
    private static final Map<Class<?>, Object> VALUES = new HashMap<>();

    static {
        VALUES.put(String.class, "tée");
        VALUES.put(boolean.class, true);
        VALUES.put(Boolean.class, true);
        VALUES.put(byte.class, (byte) 2);
        VALUES.put(Byte.class, (byte) 2);
        VALUES.put(short.class, (short) 300);
        VALUES.put(Short.class, (short) 300);
        VALUES.put(char.class, 'c');
        VALUES.put(Character.class, 'c');
        VALUES.put(int.class, 3);
        VALUES.put(Integer.class, 3);
        VALUES.put(long.class, 70000L);
        VALUES.put(Long.class, 70000L);
        VALUES.put(float.class, 1.5f);
        VALUES.put(Float.class, 1.5f);
        VALUES.put(double.class, 2.25);
        VALUES.put(Double.class, 2.25);
        VALUES.put(BigDecimal.class, new BigDecimal("12.50"));
        VALUES.put(BigInteger.class, BigInteger.TEN.pow(20));
        VALUES.put(LocalDate.class, LocalDate.of(2020, 1, 2));
        VALUES.put(LocalTime.class, LocalTime.of(3, 4));
        VALUES.put(LocalDateTime.class, LocalDateTime.of(2020, 1, 2, 3, 4));
        VALUES.put(Instant.class, Instant.ofEpochSecond(5, 6));
        VALUES.put(ZonedDateTime.class, ZonedDateTime.of(2020, 1, 2, 3, 4, 5, 6, ZoneId.of("Europe/Berlin")));
        VALUES.put(Duration.class, Duration.ofSeconds(3));
        VALUES.put(Date.class, new Date(86400000L));
        VALUES.put(java.sql.Timestamp.class, new java.sql.Timestamp(7000));
        VALUES.put(UUID.class, new UUID(1, 2));
        VALUES.put(Object.class, "text");
        VALUES.put(Number.class, 3);
    }

    private Samples() {}

    static Object of(Type type) throws Exception {
        if (type instanceof WildcardType) {
            return of(((WildcardType) type).getUpperBounds()[0]);
        }
        if (type instanceof GenericArrayType) {
            throw new IllegalArgumentException(type.toString());
        }
        Type[] arguments = type instanceof ParameterizedType ? ((ParameterizedType) type).getActualTypeArguments() : new Type[0];
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type);
        Object known = VALUES.get(raw);
        if (known != null) {
            return known;
        }
        if (raw.isEnum()) {
            return raw.getEnumConstants()[1];
        }
        if (raw.isArray()) {
            Object array = Array.newInstance(raw.getComponentType(), 1);
            Array.set(array, 0, of(raw.getComponentType()));
            return array;
        }
        if (Iterable.class.isAssignableFrom(raw)) {
            return list(raw, arguments.length == 0 ? String.class : arguments[0]);
        }
        if (Map.class.isAssignableFrom(raw)) {
            return map(raw, arguments);
        }
        if (raw == Optional.class) {
            return Optional.of(of(arguments[0]));
        }
        if (raw == Tuple2.class) {
            return Tuple2.of(of(arguments[0]), of(arguments[1]));
        }
        if (raw == Either.class) {
            return Either.Left(of(arguments[0]));
        }
        if (raw == Row.class) {
            return Row.of(1, "a");
        }
        return object(raw);
    }

    private static Collection<Object> list(Class<?> raw, Type element) throws Exception {
        List<Object> items = Arrays.asList(of(element));
        if (Set.class.isAssignableFrom(raw)) {
            return new HashSet<>(items);
        }
        if (raw == LinkedList.class) {
            return new LinkedList<>(items);
        }
        return raw.getSimpleName().endsWith("Deque") ? new ArrayDeque<>(items) : new ArrayList<>(items);
    }

    private static Map<Object, Object> map(Class<?> raw, Type[] arguments) throws Exception {
        Map<Object, Object> found = SortedMap.class.isAssignableFrom(raw) ? new TreeMap<>() : new HashMap<>();
        found.put(of(arguments[0]), of(arguments[1]));
        return found;
    }

    private static Object object(Class<?> raw) throws Exception {
        Constructor<?> constructor = raw.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        Type[] parameters = constructor.getGenericParameterTypes();
        Object[] arguments = new Object[parameters.length];
        for (int at = 0; at < parameters.length; at++) {
            arguments[at] = of(parameters[at]);
        }
        Object made = constructor.newInstance(arguments);
        for (Class<?> type = raw; parameters.length == 0 && type != Object.class; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    field.set(made, of(field.getGenericType()));
                }
            }
        }
        return made;
    }
}
