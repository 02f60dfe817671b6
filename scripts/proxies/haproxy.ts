import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { editSample, type ProxyStart, type RunningProxy, runProxy } from './proxy.ts'

/** Starts deploy/haproxy.cfg. */
export async function startHaproxy({ program, directory, port, nodePorts, names }: ProxyStart): Promise<RunningProxy> {
  const { stdout } = await promisify(execFile)(program, ['-v'])
  const config = editSample('deploy/haproxy.cfg', [
    ['maxconn 16384', 'maxconn 1024'],
    ['bind :8080', `bind 127.0.0.1:${port}`],
    ['127.0.0.11:53', `127.0.0.1:${names.port}`],
    ['hold valid 5s', 'hold valid 1s'],
    ['gateway-1:8080', `gateway-1:${nodePorts[0]}`],
    ['gateway-2:8080', `gateway-2:${nodePorts[1]}`],
  ])
  const file = join(directory, 'haproxy.cfg')
  writeFileSync(file, config)
  const origin = `http://127.0.0.1:${port}`
  const close = await runProxy([program, '-db', '-q', '-f', file], origin)
  return { version: `HAProxy ${/version (\d[\d.]*)/.exec(stdout)?.[1]}`, origin, looksNamesUp: true, close }
}
