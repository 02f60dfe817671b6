import type { Config } from '../config.ts'
import { getJson } from '../market/get-json.ts'
import { baseUrlOf } from './base-url.ts'

/** Where a Switchyard server answers at the configured host and port; undefined when something else does, or nothing in time. */
export async function runningSwitchyard(config: Config, timeoutMs: number): Promise<string | undefined> {
  const here = baseUrlOf({ server: { ...config.server, publicBaseUrl: null } })
  const api = await getJson(`${here}/openapi.json`, { timeoutMs }).catch(() => undefined)
  const title = (api?.body as { info?: { title?: unknown } } | undefined)?.info?.title
  return typeof title === 'string' && title.startsWith('Switchyard') ? here : undefined
}
