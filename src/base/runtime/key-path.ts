/** Formats `['endpoints', 0, 'name']` as `endpoints[0].name`, appended to the path `start`. */
export function keyPath(path: readonly PropertyKey[], start = ''): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    return text === '' ? String(step) : `${text}.${String(step)}`
  }, start)
}
