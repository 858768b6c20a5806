/** Letters that no execution's commit sends: stored without a fence, each id once. Columns as in write-commit.ts. */
export const POST_MAIL = String.raw`
  CREATE FUNCTION post_letters_1(
    p_generation text, p_id text, p_partition int[], p_recipient text, p_body text
  ) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM check_generation_1(p_generation);
    PERFORM write_records_1(NULL, array_fill(0::bigint, ARRAY[cardinality(p_partition)]), p_id, p_partition,
      p_recipient, p_body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  END
  $$;
`;
