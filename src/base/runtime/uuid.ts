/**
 * A UUID of any version as text, in either case. Has no flags, so that its source can be used in a JSON
 * Schema.
 */
export const UUID = /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/

/**
 * Returns the lowest UUIDv7 that can be created at `epochMs` or later: its first 48 bits are that time in
 * milliseconds (RFC 9562, 5.7).
 */
export function lowestUuidAt(epochMs: number): string {
  const time = epochMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`
}

/** Returns when a UUIDv7 was created, in epoch milliseconds. */
export function uuidTimeMs(uuid: string): number {
  return Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
}
