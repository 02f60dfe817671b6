/** An error that only a bug can cause: every customer with a key has an account. */
export function noAccount(customerId: string): Error {
  return new Error(`customer ${customerId} has no account: openAccount was never called`)
}
