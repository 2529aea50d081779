import java.math.BigDecimal;
import java.math.RoundingMode;
import java.sql.*;

/** A database in memory that is asked for sums of decimal numbers, by several threads. */
public class Orders {
    static final String URL = "jdbc:derby:memory:orders";

    public static void main(String[] args) throws Exception {
        int threads = Integer.parseInt(args[0]), rounds = Integer.parseInt(args[1]);
        try (Connection c = DriverManager.getConnection(URL + ";create=true"); Statement s = c.createStatement()) {
            s.execute("create table customer (id int primary key, name varchar(40), rate decimal(12, 6))");
            s.execute("create table item (id int primary key, customer int, price decimal(20, 8), amount int, text varchar(60))");
            s.execute("create index of_customer on item (customer)");
            fill(c);
        }
        Thread[] workers = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            int seed = t;
            (workers[t] = new Thread(() -> work(seed, rounds))).start();
        }
        for (Thread worker : workers) worker.join();
    }

    static void fill(Connection c) throws SQLException {
        c.setAutoCommit(false);
        try (PreparedStatement p = c.prepareStatement("insert into customer values (?, ?, ?)")) {
            for (int id = 0; id < 200; id++) {
                p.setInt(1, id);
                p.setString(2, "customer " + id);
                p.setBigDecimal(3, BigDecimal.valueOf(id * 37 % 101, 3));
                p.executeUpdate();
            }
        }
        try (PreparedStatement p = c.prepareStatement("insert into item values (?, ?, ?, ?, ?)")) {
            for (int id = 0; id < 4000; id++) {
                p.setInt(1, id);
                p.setInt(2, id * 7919 % 200);
                p.setBigDecimal(3, BigDecimal.valueOf(id * 104729L % 1000003, 4));
                p.setInt(4, id % 13 + 1);
                p.setString(5, "item " + id + " of many");
                p.executeUpdate();
            }
        }
        c.commit();
    }

    static void work(int seed, int rounds) {
        try (Connection c = DriverManager.getConnection(URL);
             PreparedStatement sum = c.prepareStatement("select i.price, i.amount, c.rate from item i, customer c"
                     + " where i.customer = c.id and c.id between ? and ? order by i.price desc");
             PreparedStatement change = c.prepareStatement("update item set amount = amount + 1 where id = ?")) {
            c.setAutoCommit(false);
            for (int round = 0; round < rounds; round++) {
                int from = (seed * 31 + round * 17) % 180;
                sum.setInt(1, from);
                sum.setInt(2, from + 5);
                BigDecimal total = BigDecimal.ZERO;
                try (ResultSet rows = sum.executeQuery()) {
                    while (rows.next()) {
                        BigDecimal value = rows.getBigDecimal(1).multiply(BigDecimal.valueOf(rows.getInt(2)));
                        BigDecimal rate = BigDecimal.ONE.add(rows.getBigDecimal(3));
                        total = total.add(value.divide(rate, 12, RoundingMode.HALF_EVEN)).multiply(rate).setScale(10, RoundingMode.HALF_UP);
                    }
                }
                change.setInt(1, (seed * 1000 + round) % 4000);
                change.executeUpdate();
                c.commit();
                if (total.signum() < 0) throw new IllegalStateException("a sum below zero");
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }
}
