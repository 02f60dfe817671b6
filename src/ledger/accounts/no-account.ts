/** A bug of ours: every customer that a key names has an account. */
export function noAccount(customerId: string): Error {
  return new Error(`customer ${customerId} has no account: openAccount was never called for it`)
}
