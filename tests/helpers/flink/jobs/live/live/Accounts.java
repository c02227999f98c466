package live;

import fixtures.LegacySource;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.util.Collector;

/** Accounts that are opened, changed and closed all the time: a value, a list, a map and timers of each. */
final class Accounts {
    private Accounts() {}

    static void build(StreamExecutionEnvironment env, int keys, int rate) {
        env.addSource(new Changes(keys, rate), Types.LONG)
                .setParallelism(1)
                .uid("changes")
                .name("Changes")
                .keyBy(number -> key(number, keys), Types.LONG)
                .process(new Keeper())
                .returns(Types.STRING)
                .uid("accounts")
                .name("accounts");
    }

    /** A few keys change much more often than most. */
    private static long key(long number, int keys) {
        SplittableRandom random = new SplittableRandom(number);
        double skewed = random.nextDouble();
        return (long) (skewed * skewed * keys);
    }

    /** Counts, so many numbers a second; a restored job goes on with the count. */
    public static class Changes extends LegacySource<Long> implements CheckpointedFunction {
        private static final Object LOCK = new Object();
        private static boolean paused;
        private static long emitted;

        private final int keys;
        private final int rate;
        private transient ListState<Long> position;
        private volatile boolean running = true;
        private long next;

        Changes(int keys, int rate) {
            this.keys = keys;
            this.rate = rate;
        }

        /** From now on nothing is emitted; returns how many numbers were. */
        static long pause() {
            synchronized (LOCK) {
                paused = true;
                return emitted;
            }
        }

        static void resume() {
            synchronized (LOCK) {
                paused = false;
            }
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            position = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("position", Long.class));
            for (Long count : position.get()) {
                next = count;
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            List<Long> one = new ArrayList<>();
            one.add(next);
            position.update(one);
        }

        @Override
        public void run(SourceContext<Long> context) throws Exception {
            long start = System.nanoTime();
            long done = 0;
            while (running) {
                long due = (System.nanoTime() - start) * rate / 1_000_000_000L;
                if (done >= due) {
                    Thread.sleep(5);
                    continue;
                }
                done++;
                synchronized (LOCK) {
                    if (!paused) {
                        emit(context);
                    }
                }
            }
        }

        private void emit(SourceContext<Long> context) {
            synchronized (context.getCheckpointLock()) {
                context.collectWithTimestamp(next, next);
                if (next % 50 == 0) {
                    context.emitWatermark(new Watermark(next - 1));
                }
                next++;
                emitted = next;
            }
        }

        @Override
        public void cancel() {
            running = false;
        }
    }

    /** An account's value. */
    public static class Account {
        public String owner;
        public long balance;
        public int changes;

        public Account() {}
    }

    /** Changes the states of a key by a number; a timer closes accounts that are left alone. */
    public static class Keeper extends KeyedProcessFunction<Long, Long, String> implements CheckpointedFunction {
        private static final String[] PRODUCTS = {"sencha", "matcha", "mate", "caf\u00e9", "\u7d05\u8336"};
        private static final int RECENT = 8;

        private transient ValueState<Account> account;
        private transient ListState<Long> recent;
        private transient MapState<String, Long> products;
        private transient ValueState<Long> closing;

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            KeyedStateStore store = context.getKeyedStateStore();
            account = store.getState(new ValueStateDescriptor<>("account", Account.class));
            recent = store.getListState(new ListStateDescriptor<>("recent", Long.class));
            products = store.getMapState(new MapStateDescriptor<>("products", String.class, Long.class));
            closing = store.getState(new ValueStateDescriptor<>("closing", Long.class));
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) {}

        @Override
        public void processElement(Long number, Context context, Collector<String> out) throws Exception {
            SplittableRandom random = new SplittableRandom(~number);
            if (random.nextInt(40) == 0) {
                close(context);
                return;
            }
            Account changed = account.value() == null ? new Account() : account.value();
            changed.owner = "owner " + context.getCurrentKey();
            changed.balance += random.nextInt(-500, 1000);
            changed.changes++;
            account.update(changed);
            changeRecent(number);
            changeProducts(random);
            remind(context, number + 2_000);
        }

        private void changeRecent(long number) throws Exception {
            recent.add(number);
            List<Long> all = new ArrayList<>();
            recent.get().forEach(all::add);
            if (all.size() > RECENT) {
                recent.update(all.subList(RECENT / 2, all.size()));
            }
        }

        private void changeProducts(SplittableRandom random) throws Exception {
            String product = PRODUCTS[random.nextInt(PRODUCTS.length)];
            Long before = products.get(product);
            if (before != null && random.nextInt(4) == 0) {
                products.remove(product);
            } else {
                products.put(product, (before == null ? 0 : before) + 1);
            }
        }

        /** One timer for each key, which every change moves. */
        private void remind(Context context, long time) throws Exception {
            if (closing.value() != null) {
                context.timerService().deleteEventTimeTimer(closing.value());
            }
            context.timerService().registerEventTimeTimer(time);
            closing.update(time);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out) throws Exception {
            close(context);
        }

        private void close(Context context) throws Exception {
            if (closing.value() != null) {
                context.timerService().deleteEventTimeTimer(closing.value());
            }
            account.clear();
            recent.clear();
            products.clear();
            closing.clear();
        }
    }
}
