/** The lowest id a UUIDv7 made at `epochMs` or later can have: its first 48 bits are that time in milliseconds (RFC 9562, 5.7). */
export function lowestUuidAt(epochMs: number): string {
  const time = epochMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`
}
