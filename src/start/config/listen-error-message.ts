/** Explains why the server cannot listen. The caller handles a port that is already in use. */
export function listenErrorMessage(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
): string {
  switch (error.code) {
    case 'EADDRNOTAVAIL':
      return `This machine has no address ${host}. Set HOST or server.host to an address of this machine.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The name ${host} does not resolve. Set HOST or server.host to an address of this machine.`
    case 'EACCES':
      return `This user may not listen on port ${port}. Set PORT or server.port to 1024 or higher.`
    default:
      return `Cannot listen on port ${port} of ${host}: ${error.message}. Set HOST and PORT, or server.host and server.port.`
  }
}
