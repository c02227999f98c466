package restoring;

import fixtures.Compat;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.evictors.CountEvictor;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** Flink's own window operator over restored windows: at the end of event time each fires, with its contents. */
final class WindowsAgain {
    private WindowsAgain() {}

    static SingleOutputStreamOperator<String> job(StreamExecutionEnvironment env, Spec.Operator operator) {
        Spec.Windows windows = operator.windows;
        Type type = Language.type(windows.type);
        TypeInformation<Object> information = type.information();
        Fired fired = new Fired(operator.label(), operator.key, windows);
        WindowedStream<Object, Object, TimeWindow> open =
                env.addSource(new Waiting<Object>(), information)
                        .setParallelism(1)
                        .keyBy(new Job.NoKey<Object>(), Language.type(operator.key).information())
                        .window(assigner(windows));
        switch (windows.contents) {
            case "list":
                return open.process(fired, Types.STRING);
            case "evict":
                return open.evictor(CountEvictor.of(Integer.MAX_VALUE)).process(fired, Types.STRING);
            case "reduce":
                return open.reduce(new KeyedStates.Unused(), fired, Types.STRING);
            case "aggregate":
                return open.aggregate(
                        (AggregateFunction<Object, Object, Object>) new KeyedStates.Itself(),
                        fired,
                        information,
                        information,
                        Types.STRING);
            default:
                throw new IllegalArgumentException("no window holds " + windows.contents);
        }
    }

    private static WindowAssigner<Object, TimeWindow> assigner(Spec.Windows windows) {
        switch (windows.assigner) {
            case "tumbling":
                return Compat.tumbling(windows.size);
            case "sliding":
                return Compat.sliding(windows.size, windows.slide);
            case "session":
                return Compat.session(windows.size);
            default:
                throw new IllegalArgumentException("no window assigner is called " + windows.assigner);
        }
    }

    /** Notes the contents of each window that fires. */
    public static final class Fired extends ProcessWindowFunction<Object, String, Object, TimeWindow> {
        private final String uid;
        private final String key;
        private final String type;
        private final boolean single;

        Fired(String uid, String key, Spec.Windows windows) {
            this.uid = uid;
            this.key = key;
            this.type = windows.type;
            this.single = windows.contents.equals("reduce") || windows.contents.equals("aggregate");
        }

        @Override
        public void process(Object at, Context context, Iterable<Object> elements, Collector<String> out) {
            Type element = Language.type(type);
            List<Object> all = new ArrayList<>();
            elements.forEach(item -> all.add(element.view(item)));
            Object span = Language.span(context.window());
            Object shown = Language.type(key).view(at);
            Findings.keyed(uid, "window-contents", "window", shown, span, single ? all.get(0) : all);
        }
    }
}
