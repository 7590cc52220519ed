// Reads documents from stdin, each a 32-bit big-endian length and so many bytes, and
// writes one line for each: JSON.stringify(JSON.parse(document)) as a JSON string, or
// null for what is no JSON.
'use strict';

function stringify(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return null;
  }
}

let pending = Buffer.alloc(0);

process.stdin.on('data', (chunk) => {
  pending = Buffer.concat([pending, chunk]);
  let lines = '';
  let start = 0;
  while (start + 4 <= pending.length) {
    const end = start + 4 + pending.readUInt32BE(start);
    if (end > pending.length) break;
    lines += JSON.stringify(stringify(pending.toString('utf8', start + 4, end))) + '\n';
    start = end;
  }
  pending = pending.subarray(start);
  process.stdout.write(lines);
});
