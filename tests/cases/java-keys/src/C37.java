// Keys of Java's own classes that Flink's type extraction leaves to Kryo, and whose hashCode follows from their value.
import java.time.*;
import java.util.*;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public class C37 implements Lab.Job {
    static final Map<String, Class<?>> CLASSES = new LinkedHashMap<>();
    static {
        CLASSES.put("uuid", UUID.class);
        CLASSES.put("date", LocalDate.class);
        CLASSES.put("time", LocalTime.class);
        CLASSES.put("datetime", LocalDateTime.class);
        CLASSES.put("instant", Instant.class);
    }

    static Object key(String uid, long i) {
        long far = i * 0x9E3779B97F4A7C15L;
        switch (uid) {
            case "uuid": return i == 0 ? new UUID(0, 0) : i == 1 ? new UUID(-1, -1) : new UUID(far, far * far);
            case "date": return LocalDate.of(1900 + (int) i * 7, 1 + (int) i % 12, 1 + (int) i % 28);
            case "time": return LocalTime.ofNanoOfDay(Math.floorMod(far, 86_400_000_000_000L));
            case "datetime": return LocalDateTime.of((LocalDate) key("date", i), (LocalTime) key("time", i));
            default: return Instant.ofEpochSecond(i * 1_000_003_001L - 20_000_000_000L, Math.floorMod(far, 1_000_000_000L));
        }
    }

    static class Op extends KeyedProcessFunction<Object, Long, String> {
        final String uid;
        ValueState<Long> count;

        Op(String uid) { this.uid = uid; }

        @Override public void open(OpenContext context) { count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG)); }

        @Override public void processElement(Long i, Context context, Collector<String> out) throws Exception {
            if (!Lab.READ) { count.update(i * 11); context.timerService().registerEventTimeTimer(1_000_000L + i); }
            Lab.line(uid, "count", text(uid, i), count.value());
        }
    }

    /** With seconds always, as columns have it. */
    static String text(String uid, long i) {
        Object key = key(uid, i);
        if (key instanceof LocalTime) return java.time.format.DateTimeFormatter.ISO_LOCAL_TIME.format((LocalTime) key);
        if (key instanceof LocalDateTime) return java.time.format.DateTimeFormatter.ISO_LOCAL_DATE_TIME.format((LocalDateTime) key);
        return key.toString();
    }

    static class Key implements KeySelector<Long, Object> {
        final String uid;

        Key(String uid) { this.uid = uid; }

        public Object getKey(Long i) { return key(uid, i); }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        for (Map.Entry<String, Class<?>> one : CLASSES.entrySet()) {
            String uid = one.getKey();
            TypeInformation<Object> type = new GenericTypeInfo(one.getValue());
            src.keyBy(new Key(uid), type).process(new Op(uid)).returns(Types.STRING).uid(uid).sinkTo(new DiscardingSink<>()).uid("s" + uid);
        }
    }
}
