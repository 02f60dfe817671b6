import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { editSample, type ProxyStart, type RunningProxy, runProxy } from './proxy.ts'

/** Starts deploy/Caddyfile, over plain HTTP. */
export async function startCaddy({ program, directory, port, nodePorts }: ProxyStart): Promise<RunningProxy> {
  const { stdout } = await promisify(execFile)(program, ['version'])
  const config = editSample('deploy/Caddyfile', [
    [
      'gateway.example.com {',
      `{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\tlog {\n\t\tlevel PANIC\n\t}\n}\nhttp://127.0.0.1:${port} {`,
    ],
    ['gateway-1:8080', `127.0.0.1:${nodePorts[0]}`],
    ['gateway-2:8080', `127.0.0.1:${nodePorts[1]}`],
  ])
  const file = join(directory, 'Caddyfile')
  writeFileSync(file, config)
  const origin = `http://127.0.0.1:${port}`
  const close = await runProxy([program, 'run', '--adapter', 'caddyfile', '--config', file], origin, {
    HOME: directory,
    XDG_DATA_HOME: directory,
    XDG_CONFIG_HOME: directory,
  })
  return { version: `Caddy ${stdout.split(' ')[0]!.trim().replace(/^v/, '')}`, origin, close }
}
