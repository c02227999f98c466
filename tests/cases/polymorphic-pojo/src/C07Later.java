// Subclasses that turn up one after another while the job runs slowly: a changelog declares states with others than it has materialized.
import java.util.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
public class C07Later implements Lab.Job {
    static C07.Event ev(long i) {
        C07.Event e;
        if (i < 12) { C07.Dog d = new C07.Dog(); d.age = (int) i; d.breed = "b" + i; e = d; }
        else if (i < 26) { C07.Cat c = new C07.Cat(); c.indoor = i % 2 == 0; c.lives = 9 - i; e = c; }
        else { C07.Fish f = new C07.Fish(); f.depth = i / 4.0; e = f; }
        e.id = "e" + i; e.ts = i * 10; return e;
    }
    static class Op extends KeyedProcessFunction<Long, Long, String> {
        ValueState<C07.Event> v; MapState<String, C07.Event> m;
        @Override public void open(OpenContext c) {
            v = getRuntimeContext().getState(new ValueStateDescriptor<>("event", Types.POJO(C07.Event.class)));
            m = getRuntimeContext().getMapState(new MapStateDescriptor<>("byName", Types.STRING, Types.POJO(C07.Event.class)));
        }
        @Override public void processElement(Long i, Context c, Collector<String> o) throws Exception {
            if (!Lab.READ) { Thread.sleep(150); v.update(ev(i)); m.put("a", ev(i)); m.put("b", ev(i + 2)); }
            Lab.line("op", "event", i, v.value());
            Map<String, C07.Event> q = new TreeMap<>(); for (Map.Entry<String, C07.Event> e : m.entries()) q.put(e.getKey(), e.getValue()); Lab.line("op", "byName", i, q);
        }
    }
    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        src.keyBy(x -> x, Types.LONG).process(new Op()).returns(Types.STRING).uid("op").sinkTo(new DiscardingSink<>()).uid("k");
    }
}
