package org.tensorflow.lite.attache;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Frees the native memory of objects that nobody reaches any more, for the classes of this library only. It does what
 * {@code java.lang.ref.Cleaner} does, which older versions of Android lack.
 */
public final class Reaper {
    private static final ReferenceQueue<Object> QUEUE = new ReferenceQueue<>();
    /** References are reached from here until they were handled. */
    private static final Set<Entry> ENTRIES = ConcurrentHashMap.newKeySet();

    static {
        Thread thread = new Thread(Reaper::handle, "attache-reaper");
        thread.setDaemon(true);
        thread.start();
    }

    private Reaper() {}

    private static final class Entry extends PhantomReference<Object> {
        private final Runnable free;

        Entry(Object owner, Runnable free) {
            super(owner, QUEUE);
            this.free = free;
        }
    }

    /**
     * Calls {@code free} once nobody reaches {@code owner}.
     *
     * @param free does not refer to the owner
     * @return what makes the call unnecessary: it forgets both
     */
    public static Runnable watch(Object owner, Runnable free) {
        Entry entry = new Entry(owner, free);
        ENTRIES.add(entry);
        return () -> {
            ENTRIES.remove(entry);
            entry.clear();
        };
    }

    private static void handle() {
        while (true) {
            try {
                Entry entry = (Entry) QUEUE.remove();
                if (ENTRIES.remove(entry)) {
                    entry.free.run();
                }
            } catch (InterruptedException | RuntimeException ignored) {
                // The thread serves all objects of the process: it goes on.
            }
        }
    }
}
