import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { editSample, type ProxyStart, type RunningProxy, runProxy } from './proxy.ts'

/** Starts deploy/traefik. */
export async function startTraefik({ program, directory, port, nodePorts }: ProxyStart): Promise<RunningProxy> {
  const { stdout } = await promisify(execFile)(program, ['version'])
  const dynamic = join(directory, 'gateways.yaml')
  writeFileSync(
    dynamic,
    editSample('deploy/traefik/gateways.yaml', [
      ['gateway-1:8080', `127.0.0.1:${nodePorts[0]}`],
      ['gateway-2:8080', `127.0.0.1:${nodePorts[1]}`],
    ]),
  )
  const file = join(directory, 'traefik.yaml')
  writeFileSync(
    file,
    editSample('deploy/traefik/traefik.yaml', [
      ['":8080"', `"127.0.0.1:${port}"`],
      ['/etc/traefik/gateways.yaml', dynamic],
    ]),
  )
  const origin = `http://127.0.0.1:${port}`
  const close = await runProxy([program, `--configfile=${file}`], origin)
  return { version: `Traefik ${/Version:\s*(\S+)/.exec(stdout)?.[1]}`, origin, close }
}
