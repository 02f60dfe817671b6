import { getJson } from '../../../wire/egress/get-json.ts'

/** The document has more than a megabyte. */
const BYTES_MAX = 8_000_000

/**
 * Whether a Switchyard server answers at `baseUrl`; false for another server, or when nothing answers in
 * time.
 */
export async function isSwitchyardAt(baseUrl: string, timeoutMs: number): Promise<boolean> {
  const answer = await getJson(`${baseUrl}/openapi.json`, { timeoutMs, bytesMax: BYTES_MAX }).catch(() => undefined)
  const title = (answer?.body as { info?: { title?: unknown } } | undefined)?.info?.title
  return typeof title === 'string' && title.startsWith('Switchyard')
}
