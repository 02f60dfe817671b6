import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { eventually } from '../../test/chaos/eventually.ts'
import { readPage } from '../../test/docs/page.ts'
import { killOnExit } from '../../test/harness/clean-up-on-exit.ts'
import type { NameServer } from './name-server.ts'

/** What a sample of deploy/ is started with. */
export interface ProxyStart {
  /** Path of its program. */
  readonly program: string
  /** For its files. */
  readonly directory: string
  /** Where it listens, on 127.0.0.1. */
  readonly port: number
  /** The ports of the gateways, on 127.0.0.1. */
  readonly nodePorts: readonly [number, number]
  /** Knows the names of the gateways in the samples. */
  readonly names: NameServer
}

export interface RunningProxy {
  /** Its name and version. */
  readonly version: string
  /** `http://127.0.0.1:<port>` */
  readonly origin: string
  /** What differs from running the sample as it is; undefined: only addresses, and paths of files. */
  readonly note?: string
  /** Whether this version looks the names of gateways up again. Undefined: the names are not in use here. */
  readonly looksNamesUp?: boolean
  /** Whether the gateway on this port gets requests. An operator restarts the next one only then. Undefined: when it is ready. */
  readonly hasGateway?: (nodePort: number) => boolean
  close(): Promise<void>
}

export type StartProxy = (start: ProxyStart) => Promise<RunningProxy>

/** Returns a sample with the addresses of this run. Throws when the sample no longer has one of the texts. */
export function editSample(path: string, edits: readonly (readonly [sample: string, here: string])[]): string {
  return edits.reduce((text, [sample, here]) => {
    if (!text.includes(sample)) throw new Error(`${path} no longer has "${sample}".`)
    return text.replaceAll(sample, here)
  }, readPage(path))
}

/** Starts a proxy in the foreground, and waits until it passes requests on to a gateway. Returns a function that stops it. */
export async function runProxy(
  [program, ...args]: readonly [string, ...string[]],
  origin: string,
  env: NodeJS.ProcessEnv = {},
): Promise<() => Promise<void>> {
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { PATH: process.env.PATH, ...env },
  })
  killOnExit(child)
  const ended = once(child, 'exit')
  await eventually(`${program} serves`, async () => {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`)
    return await fetch(`${origin}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
  })
  return async () => {
    child.kill('SIGTERM')
    await ended
  }
}
