import type { AddressInfo } from 'node:net'
import packageJson from '../../package.json' with { type: 'json' }
import { armFailpoints } from '../base/runtime/failpoint.ts'
import { type App, compose } from './compose/compose.ts'
import type { ComposeInput } from './compose/compose-context.ts'
import type { Config } from './config/config.ts'
import { listenProblem } from './listen-problem.ts'
import { lowerGcPriority, runFullGc } from './tune-gc.ts'

/**
 * Builds the gateway of this process and listens on its port. Throws an Error with a message for the operator.
 */
export async function serve(input: Omit<ComposeInput, 'version'>): Promise<{ app: App; port: number }> {
  const { failpoints } = input.config
  armFailpoints(failpoints)
  if (failpoints.length > 0) {
    input.log.warn({ failpoints }, 'SWITCHYARD_FAILPOINTS is set: this process will crash at these points')
  }
  const app = await compose({ ...input, version: packageJson.version })
  try {
    app.warmUp()
    runFullGc()
    lowerGcPriority()
    await listen(app, input.config)
  } catch (error) {
    await app.close({ drainMs: 0 })
    throw error
  }
  return { app, port: (app.server.server.address() as AddressInfo).port }
}

async function listen(app: App, config: Config): Promise<void> {
  const { host, port } = config.server
  try {
    await app.server.listen({ host, port })
  } catch (error) {
    throw new Error(await listenProblem(error as NodeJS.ErrnoException, { host, port }))
  }
}
