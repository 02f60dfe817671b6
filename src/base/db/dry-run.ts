import { type Pool, type Sql, transaction } from './pool.ts'

/**
 * Runs `work` in a transaction and returns its result. A dry run rolls the transaction back, so its result
 * shows exactly what would happen.
 */
export async function transactionOrDryRun<T>(pool: Pool, dryRun: boolean, work: (sql: Sql) => Promise<T>): Promise<T> {
  if (!dryRun) return transaction(pool, work)
  const rollback = new Error('dry run')
  let result: T | undefined
  try {
    await transaction(pool, async sql => {
      result = await work(sql)
      throw rollback
    })
  } catch (error) {
    if (error !== rollback) throw error
  }
  return result as T
}
