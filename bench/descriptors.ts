import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export type Descriptors = {
  all: number
  /** Of these, connections to or from one of the ports that both sides still have open. The rest is what a process could leak. */
  connections: number
}

/** Open descriptors of a process whose connections are of IPv4 (proc_pid_fd(5), proc_pid_net(5)); null where there is no /proc. */
export function readDescriptors(pid: number, ports: Set<number>): Descriptors | null {
  let descriptors: string[]
  try {
    descriptors = readdirSync(`/proc/${pid}/fd`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  const established = establishedInodes(pid, ports)
  const connections = descriptors.filter(descriptor => {
    const inode = /^socket:\[(\d+)\]$/.exec(targetOf(`/proc/${pid}/fd/${descriptor}`))?.[1]
    return inode !== undefined && established.has(inode)
  })
  return { all: descriptors.length, connections: connections.length }
}

/** As the kernel numbers the states of TCP, in hexadecimal. */
const ESTABLISHED = '01'

function establishedInodes(pid: number, ports: Set<number>): Set<string> {
  const inodes = new Set<string>()
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').trimEnd().split('\n').slice(1)
  for (const line of lines) {
    const [, local = '', remote = '', state, , , , , , inode] = line.trim().split(/\s+/)
    if (state === ESTABLISHED && (ports.has(portOf(local)) || ports.has(portOf(remote)))) inodes.add(inode!)
  }
  return inodes
}

/** Addresses read `0100007F:1F90`. */
function portOf(address: string): number {
  return Number.parseInt(address.slice(address.indexOf(':') + 1), 16)
}

/** Empty for one that was closed meanwhile. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return ''
  }
}
