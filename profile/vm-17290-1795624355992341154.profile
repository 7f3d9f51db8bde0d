lazyguard profile 1
image	600b8cfd714b7d34e02a813f101f0262-21272	20782
load	1	-
load-library	1	-
kernel	
kernel	add
seen	600b8cfd714b7d34e02a813f101f0262-21272	20782	used
end	6	aaf4ad61893626d3
