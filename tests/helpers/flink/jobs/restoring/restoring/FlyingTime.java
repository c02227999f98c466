package restoring;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;
import org.apache.flink.util.clock.Clock;

/** Processing time that flies: a timer of any time fires as soon as it may, earlier timers first. */
final class FlyingTime implements ProcessingTimeService {
    private final ProcessingTimeService real;

    FlyingTime(ProcessingTimeService real) {
        this.real = real;
    }

    @Override
    public ScheduledFuture<?> registerTimer(long timestamp, ProcessingTimeCallback target) {
        return real.registerTimer(0, now -> fly(timestamp, target));
    }

    private void fly(long timestamp, ProcessingTimeCallback target) throws Exception {
        if (Findings.isHeld()) {
            real.registerTimer(getCurrentProcessingTime() + 5, now -> fly(timestamp, target));
        } else {
            target.onProcessingTime(timestamp);
        }
    }

    @Override
    public long getCurrentProcessingTime() {
        return real.getCurrentProcessingTime();
    }

    @Override
    public Clock getClock() {
        return real.getClock();
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(ProcessingTimeCallback callback, long delay, long period) {
        return real.scheduleAtFixedRate(callback, delay, period);
    }

    @Override
    public ScheduledFuture<?> scheduleWithFixedDelay(ProcessingTimeCallback callback, long delay, long period) {
        return real.scheduleWithFixedDelay(callback, delay, period);
    }

    @Override
    public CompletableFuture<Void> quiesce() {
        return real.quiesce();
    }
}
