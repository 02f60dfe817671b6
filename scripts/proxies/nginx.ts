import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { editSample, type ProxyStart, type RunningProxy, runProxy } from './proxy.ts'

/** The kinds of files that nginx keeps for a while, by default where only root may write. */
const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']

/** Starts deploy/nginx.conf. */
export async function startNginx({ program, directory, port, nodePorts, names }: ProxyStart): Promise<RunningProxy> {
  const { stderr } = await promisify(execFile)(program, ['-v'])
  // Older versions of the free edition look names up once.
  const looksNamesUp = versionNumber(stderr) >= 1_027_003
  const nodeOf = (n: 1 | 2) => `${looksNamesUp ? `gateway-${n}` : '127.0.0.1'}:${nodePorts[n - 1]}`
  const config = editSample('deploy/nginx.conf', [
    ['http {', `http {\n${temporary.map(kind => `  ${kind}_temp_path ${join(directory, kind)};`).join('\n')}`],
    ['worker_processes auto', 'worker_processes 1'],
    ['worker_rlimit_nofile 65536;', ''],
    ['worker_connections 16384', 'worker_connections 1024'],
    ['listen 8080;', `listen 127.0.0.1:${port};`],
    ['resolver 127.0.0.11 valid=5s', `resolver 127.0.0.1:${names.port} valid=1s`],
    ['gateway-1:8080', nodeOf(1)],
    ['gateway-2:8080', nodeOf(2)],
    ...(looksNamesUp ? [] : ([[' resolve;', ';']] as const)),
  ])
  const file = join(directory, 'nginx.conf')
  writeFileSync(file, config)
  const origin = `http://127.0.0.1:${port}`
  const main = `daemon off; pid ${join(directory, 'pid')}; error_log stderr crit;`
  const close = await runProxy([program, '-p', directory, '-e', 'stderr', '-c', file, '-g', main], origin)
  return {
    version: `nginx ${/nginx\/(\S+)/.exec(stderr)?.[1]}`,
    origin,
    looksNamesUp,
    ...(!looksNamesUp && { note: 'without `resolve`, which needs nginx 1.27.3' }),
    close,
  }
}

/** Returns 1.28.3 as 1028003. */
function versionNumber(text: string): number {
  const [major, minor, patch] = /nginx\/(\d+)\.(\d+)\.(\d+)/.exec(text)!.slice(1).map(Number)
  return major! * 1_000_000 + minor! * 1_000 + patch!
}
