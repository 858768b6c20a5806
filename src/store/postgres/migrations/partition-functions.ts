/** SQL functions of membership and ownership, in three versions. */

/**
 * Membership and ownership, by the database's clock. A node is a member while its lease runs. A node takes partitions under
 * their exclusive locks, in ascending order: a running commit of the former owner ends before that, and its next commit finds
 * the new epoch. Only a member can take partitions.
 */
export const MOVE_PARTITIONS = String.raw`
  CREATE FUNCTION now_ms_1() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
  $$;

  CREATE FUNCTION renew_node_1(p_generation text, p_url text, p_incarnation text, p_next text, p_lease_ms int)
  RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    own text := p_incarnation;
    at bigint := now_ms_1();
  BEGIN
    PERFORM check_generation_1(p_generation);
    UPDATE nodes SET lease_until = at + p_lease_ms WHERE incarnation = own AND lease_until > at;
    IF NOT FOUND THEN
      own := p_next;
      INSERT INTO nodes (incarnation, url, since, lease_until) VALUES (own, p_url, at, at + p_lease_ms);
    END IF;
    DELETE FROM nodes WHERE lease_until <= at;
    RETURN json_build_object(
      'now', at,
      'incarnation', own,
      'leaseUntil', at + p_lease_ms,
      'walPosition', pg_current_wal_insert_lsn() - '0/0',
      'nodes', (
        SELECT json_agg(
          json_build_object('url', url, 'incarnation', incarnation, 'leaseUntil', lease_until, 'since', since)
          ORDER BY url, incarnation COLLATE "C"
        ) FROM nodes
      ),
      'partitions', (
        SELECT json_agg(
          json_build_object('partition', partition, 'owner', owner, 'epoch', epoch) ORDER BY partition
        ) FROM partitions
      )
    );
  END
  $$;

  CREATE FUNCTION take_partitions_1(p_lock int, p_generation text, p_owner text, p_partitions int[])
  RETURNS TABLE (taken int, taken_epoch bigint, taken_unclean_epoch bigint) LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, partition)
    FROM (SELECT unnest(p_partitions) AS partition ORDER BY 1) AS wanted;
    PERFORM check_generation_1(p_generation);
    RETURN QUERY
      UPDATE partitions
      SET epoch = epoch + 1, unclean_epoch = CASE WHEN clean THEN unclean_epoch ELSE epoch END, clean = false,
        owner = p_owner
      WHERE partition = ANY (p_partitions)
        AND (owner IS NULL OR owner = p_owner OR NOT EXISTS (
          SELECT FROM nodes WHERE incarnation = owner AND lease_until > now_ms_1()
        ))
        AND EXISTS (SELECT FROM nodes WHERE incarnation = p_owner AND lease_until > now_ms_1())
      RETURNING partition, epoch, unclean_epoch;
  END
  $$;

  CREATE FUNCTION release_partitions_1(p_lock int, p_owner text, p_partitions int[], p_clean boolean)
  RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, partition)
    FROM (SELECT unnest(p_partitions) AS partition ORDER BY 1) AS own;
    UPDATE partitions SET owner = NULL, clean = p_clean WHERE partition = ANY (p_partitions) AND owner = p_owner;
  END
  $$;

  CREATE FUNCTION leave_1(p_lock int, p_owner text, p_clean boolean) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM release_partitions_1(
      p_lock, p_owner, ARRAY(SELECT partition FROM partitions WHERE owner = p_owner), p_clean
    );
    DELETE FROM nodes WHERE incarnation = p_owner;
  END
  $$;
`;

/**
 * Renewal with versions: each node announces the newest version of events that it can read. A node that announces none is
 * older, and reads version 2.
 */
export const ANNOUNCE_VERSIONS = String.raw`
  ALTER TABLE nodes ADD COLUMN reads int NOT NULL DEFAULT 2;

  CREATE FUNCTION renew_node_2(
    p_generation text, p_url text, p_incarnation text, p_next text, p_lease_ms int, p_reads int
  )
  RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    own text := p_incarnation;
    at bigint := now_ms_1();
  BEGIN
    PERFORM check_generation_1(p_generation);
    UPDATE nodes SET lease_until = at + p_lease_ms WHERE incarnation = own AND lease_until > at;
    IF NOT FOUND THEN
      own := p_next;
      INSERT INTO nodes (incarnation, url, since, lease_until, reads)
      VALUES (own, p_url, at, at + p_lease_ms, p_reads);
    END IF;
    DELETE FROM nodes WHERE lease_until <= at;
    RETURN json_build_object(
      'now', at,
      'incarnation', own,
      'leaseUntil', at + p_lease_ms,
      'walPosition', pg_current_wal_insert_lsn() - '0/0',
      'nodes', (
        SELECT json_agg(
          json_build_object(
            'url', url, 'incarnation', incarnation, 'leaseUntil', lease_until, 'since', since, 'reads', reads
          )
          ORDER BY url, incarnation COLLATE "C"
        ) FROM nodes
      ),
      'partitions', (
        SELECT json_agg(
          json_build_object('partition', partition, 'owner', owner, 'epoch', epoch) ORDER BY partition
        ) FROM partitions
      )
    );
  END
  $$;
`;

/**
 * Each partition stores when its unclean epochs ended, as pairs of an epoch and a time. An epoch ends with the lease of its
 * owner; the next renewal of any node deletes the owner's row, so the ends of leases are kept for a day. A partition also
 * stores the epoch since which all owners took it by this function: those owners store their grants of limits.
 */
export const UNCLEAN_ENDS = String.raw`
  ALTER TABLE partitions
    ADD COLUMN unclean_ends bigint[] NOT NULL DEFAULT '{}',
    ADD COLUMN limits_epoch bigint NOT NULL DEFAULT 0,
    ADD COLUMN limits_from bigint NOT NULL DEFAULT 1;

  CREATE TABLE node_ends (
    incarnation text COLLATE "C" PRIMARY KEY,
    ended_at bigint NOT NULL
  );

  CREATE FUNCTION keep_node_end_1() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO node_ends (incarnation, ended_at) VALUES (OLD.incarnation, least(OLD.lease_until, now_ms_1()))
    ON CONFLICT DO NOTHING;
    DELETE FROM node_ends WHERE ended_at < now_ms_1() - 86400000;
    RETURN OLD;
  END
  $$;

  CREATE TRIGGER keep_node_end AFTER DELETE ON nodes FOR EACH ROW EXECUTE FUNCTION keep_node_end_1();

  CREATE FUNCTION take_partitions_2(p_lock int, p_generation text, p_owner text, p_partitions int[])
  RETURNS TABLE (
    taken int, taken_epoch bigint, taken_unclean_epoch bigint, taken_unclean_ends text, taken_limits_from bigint
  )
  LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_advisory_xact_lock(p_lock, partition)
    FROM (SELECT unnest(p_partitions) AS partition ORDER BY 1) AS wanted;
    PERFORM check_generation_1(p_generation);
    RETURN QUERY
      UPDATE partitions
      SET epoch = epoch + 1, unclean_epoch = CASE WHEN clean THEN unclean_epoch ELSE epoch END, clean = false,
        owner = p_owner,
        limits_epoch = epoch + 1,
        limits_from = CASE WHEN limits_epoch = epoch THEN limits_from ELSE epoch + 1 END,
        unclean_ends = CASE WHEN clean THEN unclean_ends ELSE
          unclean_ends[greatest(1, cardinality(unclean_ends) - 61):] || ARRAY[epoch, least(now_ms_1(), coalesce(
            (SELECT lease_until FROM nodes WHERE incarnation = owner),
            (SELECT ended_at FROM node_ends WHERE incarnation = owner),
            now_ms_1()
          ))]
        END
      WHERE partition = ANY (p_partitions)
        AND (owner IS NULL OR owner = p_owner OR NOT EXISTS (
          SELECT FROM nodes WHERE incarnation = owner AND lease_until > now_ms_1()
        ))
        AND EXISTS (SELECT FROM nodes WHERE incarnation = p_owner AND lease_until > now_ms_1())
      RETURNING partition, epoch, unclean_epoch, array_to_string(unclean_ends, ' '), limits_from;
  END
  $$;
`;
