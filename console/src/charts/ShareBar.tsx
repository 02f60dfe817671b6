/** One share of a whole, for the rows of a ranking. */
export function ShareBar({ share }: { share: number }) {
  return (
    <svg width="80" height="8" viewBox="0 0 80 8" aria-hidden="true">
      <rect width="80" height="8" rx="2" fill="var(--sunken)" />
      <rect width={Math.max(share > 0 ? 1 : 0, share * 80)} height="8" rx="2" fill="var(--link)" />
    </svg>
  )
}
