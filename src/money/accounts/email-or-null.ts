/**
 * Returns the e-mail of a stored customer; null for a deleted customer, whose address was replaced by `deleted-<id>`.
 */
export function emailOrNull(email: string): string | null {
  return email.includes('@') ? email : null
}
