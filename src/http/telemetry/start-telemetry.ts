import { randomUUID } from 'node:crypto'
import type { Telemetry, TelemetryDeps } from './telemetry.ts'

/** Starts telemetry; null when it is off. Its packages are only loaded when it is on: they take 100 ms and 20 MB. */
export async function startTelemetry(deps: TelemetryDeps): Promise<Telemetry | null> {
  if (deps.settings.endpoint === null) return null
  const { openTelemetry } = await import('./open-telemetry.ts')
  return openTelemetry({ ...deps, endpoint: deps.settings.endpoint, instanceId: randomUUID() })
}
