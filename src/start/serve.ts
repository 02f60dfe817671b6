import type { AddressInfo } from 'node:net'
import packageJson from '../../package.json' with { type: 'json' }
import { localUrlOf } from '../config/base-url.ts'
import type { Config } from '../config/config.ts'
import { listenErrorMessage } from '../config/listen-error-message.ts'
import { armFailpoints } from '../runtime/failpoint.ts'
import { isSwitchyardAt } from '../supply/detection/is-switchyard-at.ts'
import { collectStartupGarbage } from './collect-startup-garbage.ts'
import { type App, compose } from './compose/compose.ts'
import type { ComposeInput } from './compose/compose-context.ts'
import { lowerCollectorPriority } from './lower-collector-priority.ts'

/** Builds the gateway of this process and listens. Throws an Error with a sentence for the operator when it cannot. */
export async function serve(input: Omit<ComposeInput, 'version'>): Promise<{ app: App; port: number }> {
  const { failpoints } = input.config
  armFailpoints(failpoints)
  if (failpoints.length > 0) {
    input.log.warn({ failpoints }, 'SWITCHYARD_FAILPOINTS is set: this process will break on purpose')
  }
  const app = await compose({ ...input, version: packageJson.version })
  try {
    collectStartupGarbage()
    lowerCollectorPriority()
    await listen(app, input.config)
  } catch (error) {
    await app.close({ drainMs: 0 })
    throw error
  }
  return { app, port: (app.server.server.address() as AddressInfo).port }
}

/** How long whoever has the port may take to say what it is. */
const ASK_TIMEOUT_MS = 1_000

async function listen(app: App, config: Config): Promise<void> {
  const { host, port } = config.server
  try {
    await app.server.listen({ host, port })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE')
      throw new Error(listenErrorMessage(error as NodeJS.ErrnoException, config.server))
    const here = localUrlOf(config.server)
    const cure = `PORT=${port + 1} npm start`
    if (await isSwitchyardAt(here, ASK_TIMEOUT_MS))
      throw new Error(`A Switchyard server runs at ${here} already. Stop it, or choose another port: ${cure}`)
    throw new Error(`Port ${port} on ${host} is taken by another program. Choose another one: ${cure}`)
  }
}
