import { scaleLinear } from 'd3-scale'

const WIDTH = 120
const HEIGHT = 28

/** Small bars without axes. The figure next to them says the same in words. */
export function Sparkline({ values }: { values: readonly number[] }) {
  const y = scaleLinear()
    .domain([0, Math.max(...values, 0) || 1])
    .range([0, HEIGHT])
  const step = WIDTH / Math.max(1, values.length)
  return (
    <svg width="100%" height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {values.map((value, index) => (
        <rect
          key={index}
          x={index * step}
          y={HEIGHT - Math.max(value > 0 ? 1 : 0, y(value))}
          width={Math.max(1, step - 1)}
          height={Math.max(value > 0 ? 1 : 0, y(value))}
          fill="var(--link)"
        />
      ))}
    </svg>
  )
}
