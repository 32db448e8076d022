package bench;

import com.github.pgasync.ConnectionPoolBuilder;
import com.github.pgasync.Db;
import com.networknt.handler.LightHttpHandler;
import io.undertow.server.HttpServerExchange;
import io.undertow.util.SameThreadExecutor;
import java.util.concurrent.atomic.AtomicInteger;

/** Sends all statements of a request at once, with postgres-async-driver. */
public final class PipelinedQueries implements LightHttpHandler {
    private final Db database = new ConnectionPoolBuilder()
            .hostname(Database.URL.getHost())
            .port(Database.URL.getPort())
            .database(Database.NAME)
            .username(Database.USER)
            .password(Database.PASSWORD)
            .poolSize(Database.CONNECTIONS)
            .pipeline(Database.PIPELINED)
            .build();

    @Override
    public void handleRequest(HttpServerExchange exchange) {
        int[][] rows = new int[Worlds.asked(exchange)][];
        exchange.dispatch(SameThreadExecutor.INSTANCE, () -> {
            AtomicInteger left = new AtomicInteger(rows.length);
            for (int index = 0; index < rows.length; index++) {
                int place = index;
                database.queryRows("select id, randomnumber from world where id = $1", Worlds.lot())
                        .subscribe(
                                row -> rows[place] = new int[] {row.getInt(0), row.getInt(1)},
                                error -> {
                                    if (left.getAndSet(Integer.MIN_VALUE) > 0) exchange.setStatusCode(500).endExchange();
                                },
                                () -> {
                                    if (left.decrementAndGet() == 0) Worlds.answer(exchange, rows);
                                });
            }
        });
    }
}
