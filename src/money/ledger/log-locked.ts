import type { Log } from '../../base/runtime/log.ts'

/** Logs that entries of these customers wait because another session has locked a row of the customer. */
export function logLocked(
  log: Pick<Log, 'warn'> | undefined,
  entries: readonly { readonly customerId: string }[],
  what: 'admissions' | 'settlements',
): void {
  const customers = [...new Set(entries.map(({ customerId }) => customerId))]
  log?.warn(
    { customers: customers.slice(0, 10), [what]: entries.length },
    `another session has locked the balances of customers; their ${what} wait, and those of others go on`,
  )
}
