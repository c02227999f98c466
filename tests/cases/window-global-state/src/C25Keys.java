// C25 with keys that are texts. Elements come a second time when it reads, so that "contents" are without repetitions.
import java.time.Duration;
import java.util.*;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.*;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.streaming.api.windowing.triggers.*;
import org.apache.flink.streaming.api.windowing.windows.*;
import org.apache.flink.util.Collector;

public class C25Keys implements Lab.Job {
    static long number(String key) { return Long.parseLong(key.substring(4)); }

    static Object place(String key, TimeWindow w) { return Lab.m("k", number(key), "start", w.getStart(), "end", w.getEnd()); }

    static class Tumbling extends ProcessWindowFunction<Long, String, String, TimeWindow> {
        final C25.F of = new C25.F("tumble");

        @Override public void process(String key, Context c, Iterable<Long> elements, Collector<String> out) throws Exception {
            Object w = place(key, c.window());
            Lab.line("tumble", "runs", w, c.windowState().getState(of.runs).value());
            Lab.line("tumble", "last", w, c.windowState().getState(of.both).value());
            Map<String, Long> names = new TreeMap<>();
            for (Map.Entry<String, Long> e : c.windowState().getMapState(of.perName).entries()) names.put(e.getKey(), e.getValue());
            Lab.line("tumble", "perName", w, names);
            Lab.line("tumble", "global-log", number(key), c.globalState().getListState(of.log_g).get());
            Lab.line("tumble", "total", number(key), c.globalState().getState(of.total).value());
            Set<Long> contents = new TreeSet<>();
            elements.forEach(contents::add);
            Lab.line("tumble", "contents", w, new ArrayList<>(contents));
        }
    }

    static class Sessions extends ProcessWindowFunction<Long, String, String, TimeWindow> {
        final C25.F2 of = new C25.F2();

        @Override public void process(String key, Context c, Iterable<Long> elements, Collector<String> out) throws Exception {
            Lab.line("session", "global-log", number(key), c.globalState().getListState(of.g).get());
            Set<Long> contents = new TreeSet<>();
            elements.forEach(contents::add);
            Lab.line("session", "contents", place(key, c.window()), new ArrayList<>(contents));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        SingleOutputStreamOperator<Long> s = src.assignTimestampsAndWatermarks(WatermarkStrategy.<Long>noWatermarks().withTimestampAssigner((x, t) -> x * 700)).returns(Types.LONG).uid("wm");
        s.keyBy(x -> "key " + x % 5, Types.STRING).window((WindowAssigner) TumblingEventTimeWindows.of(Duration.ofSeconds(4))).allowedLateness(Duration.ofSeconds(3)).trigger((Trigger) new C25.Each()).process(new Tumbling()).returns(Types.STRING).uid("tumble").sinkTo(new DiscardingSink<>()).uid("k1");
        s.keyBy(x -> "key " + x % 5, Types.STRING).window((WindowAssigner) EventTimeSessionWindows.withGap(Duration.ofMillis(3600))).trigger((Trigger) new C25.Each()).process(new Sessions()).returns(Types.STRING).uid("session").sinkTo(new DiscardingSink<>()).uid("k2");
    }
}
