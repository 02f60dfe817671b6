/**
 * The share of each customer in all requests by Zipf's law, the largest first. The customer of rank k (from 1) has k^-exponent of
 * what the first has. The shares sum to 1.
 */
export function zipfShares(customers: number, exponent: number): Float64Array {
  const shares = new Float64Array(customers)
  let sum = 0
  for (let rank = 0; rank < customers; rank++) {
    const weight = (rank + 1) ** -exponent
    shares[rank] = weight
    sum += weight
  }
  for (let rank = 0; rank < customers; rank++) shares[rank] = (shares[rank] ?? 0) / sum
  return shares
}
